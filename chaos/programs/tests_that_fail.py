"""Tests in ranks, those that the file CHAOS_CASES lists: one after the other fails in some way.

A case has a way of failing, the rank that takes it, what each other rank does meanwhile, and what
the rank changes in its process before. A case with the way "none" passes, and is to find nothing of
those before it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from chaos import processes
from chaos.programs import ways

with open(os.environ["CHAOS_CASES"], encoding="utf-8") as f:
    CASES: list[dict[str, Any]] = json.load(f)
if any("reduces" in case["peers"] for case in CASES):
    import_module("torch.distributed")  # once, and not in each rank

LONG = "1000"  # seconds
seen: list[str] = []


def _wait() -> None:
    time.sleep(float(LONG))


def _hang() -> None:
    time.sleep(float(LONG))


def _hang_in_c() -> None:
    lock = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.PyDLL(None).pthread_mutex_lock(lock)  # and no thread may run Python


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _child() -> None:
    subprocess.Popen(["sleep", LONG])


def _daemon() -> None:
    subprocess.run(["sh", "-c", f"setsid sleep {LONG} >&- 2>&- & echo"], check=True)


def _fork() -> None:
    if not os.fork():
        _wait()


def _thread() -> None:
    threading.Thread(target=_wait, name="endless").start()


def _daemon_and_death() -> None:
    _daemon()
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_parent() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    _wait()


def _close_all() -> None:
    os.closerange(0, 1000)


def _skip() -> None:
    pytest.skip("why not")


def _xfail() -> None:
    pytest.xfail("known here")


def _nothing() -> None:
    pass


# What is no way of `ways`.
MORE: dict[str, Callable[[], None]] = {
    "_exit 0": lambda: os._exit(0),
    "hang": _hang,
    "hang in C": _hang_in_c,
    "stop": _stop,
    "child": _child,
    "daemon": _daemon,
    "fork": _fork,
    "thread": _thread,
    "daemon and death": _daemon_and_death,
    "kill parent": _kill_parent,
    "close all": _close_all,
    "skip": _skip,
    "xfail": _xfail,
    "no gather": _nothing,
    "set-up": _nothing,
    "teardown": _nothing,
}


def _stubborn() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _wait()


def _compute() -> None:
    end = time.monotonic() + 2
    while time.monotonic() < end:
        pass
    _wait()


def _wait_for_child() -> None:
    subprocess.run(["sleep", LONG], check=True)


PEERS: dict[str, Callable[[], None]] = {
    "sleeps": _wait,
    "stubborn": _stubborn,
    "computes": _compute,
    "has a child": _wait_for_child,
    "passes": _nothing,
}


def _change_environment() -> None:
    mark = os.environ[processes.MARK]  # who looks for what is left, looks for this
    os.environ.clear()
    os.environ.update({processes.MARK: mark, "RANK": "no number"})


def _ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH, signal.SIGCONT})


def _break_modules() -> None:
    for name in ("json", "pickle", "tempfile", "subprocess"):
        sys.modules.pop(name, None)
    time.monotonic = lambda: 0.0


def _write_much() -> None:
    for n in range(20_000):
        print("line", n, "x" * 50)
    print("the last line", flush=True)


def _many_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


MESSES: dict[str, Callable[[], object]] = {
    "": _nothing,
    "directory": lambda: os.chdir("/"),
    "environment": _change_environment,
    "umask": lambda: os.umask(0o777),
    "signals": _ignore_signals,
    "modules": _break_modules,
    "output": _write_much,
    "limits": _many_descriptors,
}


def _surroundings() -> dict[str, Any]:
    """Give what a rank finds, which has to be the same in each test."""
    mask = os.umask(0)
    os.umask(mask)
    return {
        "seen": list(seen),
        "directory": os.getcwd(),
        "umask": mask,
        "variables": sorted(os.environ),
        "threads": [t.name for t in threading.enumerate()],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "handlers": {s.name: repr(signal.getsignal(s)) for s in signal.Signals},
        "limit": resource.getrlimit(resource.RLIMIT_NOFILE),
        "modules": sorted({"json", "pickle", "tempfile", "subprocess"} & set(sys.modules)),
    }


def _marked(case: dict[str, Any]) -> Any:
    mark = pytest.mark.ranks(case["ranks"], timeout=case["timeout"], method=case["method"])
    return pytest.param(case, id=case["id"], marks=mark)


@pytest.fixture(autouse=True)
def around(case: dict[str, Any], rank: int) -> Iterator[None]:
    """Fail in one rank, if that is its way."""
    mine = rank == case["loser"]
    if mine and case["way"] == "set-up":
        raise LookupError("before the test")
    yield
    if mine and case["way"] == "teardown":
        raise LookupError("after the test")


@pytest.mark.parametrize("case", [_marked(case) for case in CASES])
def test_case(case: dict[str, Any], rank: int, world_size: int, gather: Any, request: Any) -> None:
    """Fail as the case says."""
    way, peer = case["way"], case["peers"][rank]
    if way == "none":
        assert gather(rank) == [*range(world_size)]
        if rank == 0 and case["method"] == "fork":
            found = Path(os.environ["CHAOS_WORK"], f"{case['id']}.found")
            found.write_text(json.dumps(_surroundings()), encoding="utf-8")
        seen.append(case["id"])
        return
    seen.append(case["id"])
    if peer == "reduces":
        request.getfixturevalue("process_group")
    gather(None)  # all are in the test when one of them fails
    if way == "assert in all":
        assert rank == world_size
    if rank == case["loser"]:
        print(f"this is the loser of {case['id']}", flush=True)
        MESSES[case["mess"]]()
        if way == "assert":
            assert rank == world_size
        {**ways.WAYS, **MORE}[way]()
    elif peer == "gathers":
        gather(rank)
    elif peer == "reduces":
        _reduce()
    else:
        PEERS[peer]()


def _reduce() -> None:
    torch: Any = import_module("torch")
    torch.distributed.all_reduce(torch.ones(2))
