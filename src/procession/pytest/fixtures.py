"""The fixtures that tests with ranks have besides pytest's own.

`ours` holds, in a rank, how it talks to its launcher (`talk.Rank`); elsewhere these fixtures
fail.

Process groups meet in a file, not in a `TCPStore`: it needs no port and no server in a process of
ours, and half the CPU time. Above all, each connection to a `TCPStore` asks for the name of the
peer's address, which takes five seconds where the machine's name server does not answer.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from datetime import timedelta
from importlib import import_module

import pytest

from procession.pytest.sharedfixtures import shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from procession.pytest.talk import FixtureRank

HAS_TERMINAL = os.isatty(0) and os.isatty(1)  # at the import: pytest captures nothing yet
ours: FixtureRank | None = None
AFTER_LIMIT = 5  # seconds: the limit of the test comes first, which says where all ranks were
LONGEST = 365 * 86400  # seconds; torch's clocks count nanoseconds in 64 bits
_groups: Counter[str] = Counter()  # by file, the default process groups that this process has made


def _rank_of(request: pytest.FixtureRequest) -> FixtureRank:
    if ours is None:
        pytest.fail(
            f"the fixture {request.fixturename!r} is for tests with ranks: mark the test with "
            "@pytest.mark.ranks(n)",
            pytrace=False,
        )
    return ours


@pytest.fixture
def procession_count(request: pytest.FixtureRequest) -> int:
    """How many ranks this variant of the test has."""
    return request.param


@pytest.fixture(scope="session")
def rank(request: pytest.FixtureRequest) -> int:
    """The number of this rank, from 0."""
    return _rank_of(request).number


@pytest.fixture(scope="session")
def local_rank(request: pytest.FixtureRequest) -> int:
    """The number of this rank on its machine, which is the same here."""
    return _rank_of(request).number


@pytest.fixture(scope="session")
def world_size(request: pytest.FixtureRequest) -> int:
    """How many ranks this test has."""
    return _rank_of(request).size


@pytest.fixture
def gather(request: pytest.FixtureRequest) -> Callable[[Any], list[Any]]:
    """`gather(x)`: the x of all ranks, by rank, in each rank; what is given is pickled.

    It waits for all ranks, and fails where one has ended its test without it.
    """
    return _rank_of(request).gather


@shared
def procession_torch() -> Any:
    """The module torch.distributed: imported once, not by each rank."""
    return import_module("torch.distributed")


@pytest.fixture
def device(request: pytest.FixtureRequest, procession_torch: Any) -> Any:
    """The `torch.device` of this rank: its own GPU where there are some, else the CPU.

    Skips the test where there are GPUs, but fewer than ranks.
    """
    mine = _rank_of(request)
    import torch

    count = torch.cuda.device_count() if torch.backends.cuda.is_built() else 0
    if not count:
        return torch.device("cpu")
    if mine.size > count:
        pytest.skip(f"{mine.size} ranks need {mine.size} devices, and this machine has {count}")
    torch.cuda.set_device(mine.number)
    return torch.device("cuda", mine.number)


@pytest.fixture
def process_group(request: pytest.FixtureRequest, procession_torch: Any) -> Iterator[Any]:
    """The default process group of torch.distributed, with all ranks; gone after the test.

    Its backend is gloo, or what the mark says: `ranks(4, backend="nccl")`. In ranks that are kept
    it lives as long as they do.
    """
    __tracebackhide__ = True
    mine = _rank_of(request)
    dist = procession_torch
    if not (mine.kept and dist.is_initialized()):
        asked = mine.request
        seconds = asked["timeout"] + AFTER_LIMIT if asked["timeout"] else 1800
        limit = timedelta(seconds=min(seconds, LONGEST))
        _groups[asked["store"]] += 1
        store = dist.FileStore(asked["store"])  # the same in all ranks
        store.set_timeout(limit)
        store = dist.PrefixStore(str(_groups[asked["store"]]), store)
        dist.init_process_group(
            asked["backend"], store=store, rank=mine.number, world_size=mine.size, timeout=limit
        )
    try:
        yield dist.group.WORLD
    finally:
        if not mine.kept:
            end_process_group()


def end_process_group() -> None:
    """Destroy the default process group, if there is one."""
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_initialized():
        dist.destroy_process_group()
