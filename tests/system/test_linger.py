"""Ranks that return with torch's process group open stay for their peers, for a moment."""

import os
import sys
import time
from types import ModuleType

import pytest

import procession
from procession import GroupFailed
from seams.worker import ending

METHODS = ["forkserver", "fork"]
FOR_EVER = 1000.0


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)  # between two looks


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # the second: gone between the two
        return False


def work(directory, connected, longest, then):
    """Rank 0 returns at once. Rank 1 returns after `then` has come true of the pid of rank 0."""
    ending.LONGEST = longest
    stand_in = ModuleType("torch.distributed")
    stand_in.is_initialized = lambda: connected
    stand_in.get_world_size = lambda: 2
    sys.modules["torch.distributed"] = stand_in
    leaving = directory / "leaving"
    if os.environ["RANK"] == "0":
        (directory / "written").write_text(str(os.getpid()))
        (directory / "written").rename(leaving)
        return
    until(leaving.exists)
    then(int(leaving.read_text()))


def stays(pid):
    for _ in range(100):
        assert lives(pid)
        time.sleep(0.002)  # between two looks


def fails(pid):
    stays(pid)
    raise LookupError("rank 1 is the one that fails")


def is_gone(pid):
    until(lambda: not lives(pid))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("connected", "longest", "then"),
    [(True, FOR_EVER, stays), (True, 0.25, is_gone), (False, FOR_EVER, is_gone)],
    ids=["until all have returned", "for a moment at most", "not without connections"],
)
def test_a_connected_rank_stays(method, connected, longest, then, tmp_path):
    arguments = (tmp_path, connected, longest, then)
    procession.run(work, args=arguments, nproc=2, start_method=method)


@pytest.mark.parametrize("method", METHODS)
def test_a_peer_that_fails_is_not_waited_for(method, tmp_path):
    arguments = (tmp_path, True, FOR_EVER, fails)
    with pytest.raises(GroupFailed, match="rank 1 is the one that fails") as caught:
        procession.run(work, args=arguments, nproc=2, start_method=method)
    assert [end.rank for end in caught.value.failures] == [1]
