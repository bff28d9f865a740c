"""The board: what a rank writes there is what the launcher reads, whatever happens meanwhile."""

import fcntl
import mmap
import os
import signal
import subprocess
import sys
import time

import pytest

from seams.agent import Limits
from seams.prepare import Board
from seams.rules import DeadlineKind
from seams.worker import PAGE, VARIABLE, Page, read_stopping
from seams.worker import board as rank_side

TIMES = {
    "signal": signal.SIGTERM,
    "grace": 30.0,
    "patience": 0.0,
    "notice": 10.0,
    "linger": None,
    "reap": 5.0,
    "start": 5.0,
}


@pytest.fixture
def board():
    made = Board(3)
    yield made
    made.close()


@pytest.fixture
def memory(board):
    made = mmap.mmap(board.fd, 4 * PAGE)
    yield made
    made.close()


def test_a_rank_that_is_stopped_in_the_middle_of_a_beat_keeps_the_one_before(board, memory):
    """Else nobody would see that it hangs."""
    Page(memory, 0).beat(1, None, {})
    before = board.beat(0)
    assert before.step == 1
    memory[PAGE] |= 1
    memory[PAGE + 8 :] = b"\xff" * (3 * PAGE - 8)
    assert board.beat(0) == before
    board.forget(0)
    assert board.beat(0) is None
    assert board.beat(1) is None


def test_nobody_reads_half_a_beat(board):
    """A rank writes as fast as it can; every look sees one beat as it was written.

    Looks that come while it is stopped in the middle are what this is about, and rare: about two
    in 100,000.
    """
    code = (
        "import procession\ni = 0\nwhile True:\n i += 1\n procession.beat(i, -i, a=i, b=str(i))\n"
    )
    env = {**os.environ, **board.variable(0)}
    seen, wrong = 0, []
    with subprocess.Popen([sys.executable, "-c", code], env=env) as writer:
        try:
            deadline = time.monotonic() + 20
            while seen < 100_000 and time.monotonic() < deadline:
                if (beat := board.beat(0)) is not None:
                    seen += 1
                    n = beat.step
                    if (beat.total, beat.fields) != (-n, {"a": n, "b": str(n)}):
                        wrong.append(beat)
        finally:
            writer.kill()
    assert wrong == []
    assert seen >= 1000  # on a busy machine; 100,000 elsewhere


def test_ranks_are_told_of_the_end(board, memory):
    assert not read_stopping(memory)
    assert read_stopping(memory).seconds_left is None
    limits = Limits(TIMES, os.dup(board.fd))
    limits.begin_deadline(DeadlineKind.NOTICE, 0.0)
    told = read_stopping(memory)
    assert told
    assert told.signal is None
    assert 30 < told.seconds_left <= 40
    assert 0 < told.seconds_to_signal <= 10
    limits.change({"grace": 0.0}, waiting=True)
    limits.begin_deadline(DeadlineKind.GRACE, 0.0)
    limits.close()
    told = read_stopping(memory)
    assert (told.seconds_left, told.seconds_to_signal, told.signal) == (0.0, 0.0, signal.SIGTERM)


@pytest.mark.parametrize(
    "value",
    ["", "nonsense", "/proc/1/fd/9999:0", "/dev/null:0", "/etc/passwd:1", ":3", "/dev/zero:x"],
)
def test_outside_of_a_group_it_does_nothing(monkeypatch, value):
    monkeypatch.setenv(VARIABLE, value)
    rank_side.renew()
    try:
        rank_side.beat(1, 2, loss=3)
        assert not rank_side.stopping()
    finally:
        rank_side.renew()


def test_nobody_can_change_its_size(board):
    path = board.variable(0)[VARIABLE].rpartition(":")[0]
    fd = os.open(path, os.O_RDWR)
    try:
        for size in (0, PAGE, 100 * PAGE):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
        with pytest.raises(PermissionError):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    finally:
        os.close(fd)
