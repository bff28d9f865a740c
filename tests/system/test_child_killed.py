"""A signal that has killed a child of a rank is in the report of the rank."""

import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pipe, Process

import pytest

from seams.system import OomWatch
from support import failure_of


def die(number):
    os.kill(os.getpid(), number)


def lose_a_child(number):
    child = Process(target=die, args=(number,))
    child.start()
    child.join()
    raise RuntimeError(child.pid)


def hear_the_end_of_a_child(number):
    """Its pipe closes a moment before it can be waited for."""
    ours, theirs = Pipe()
    child = Process(target=die, args=(number,))
    child.start()
    theirs.close()
    ours.recv()


def exit_for_a_child(number):
    child = Process(target=die, args=(number,))
    child.start()
    child.join()
    sys.exit(3)


def lose_one_of_a_pool():
    with ProcessPoolExecutor(1) as pool:
        pool.submit(signal.raise_signal, signal.SIGKILL).result()


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_the_signal_is_named(name, monkeypatch):
    monkeypatch.setattr(OomWatch, "verdict", lambda *_: None)
    cause = failure_of(lose_a_child, args=(getattr(signal, name),)).cause
    own_way = name == "SIGTERM"  # a program ends its children by it
    assert cause.note == (
        "" if own_way else f"its child (pid {cause.message}) was killed by {name}"
    )


@pytest.mark.parametrize("program", [hear_the_end_of_a_child, exit_for_a_child])
def test_however_the_rank_ends(program, monkeypatch):
    monkeypatch.setattr(OomWatch, "verdict", lambda *_: None)
    assert failure_of(program, args=(signal.SIGSEGV,)).cause.note.endswith("was killed by SIGSEGV")


@pytest.mark.parametrize("counted", [True, False])
def test_the_kernel_says_whether_memory_was_short(counted, monkeypatch):
    monkeypatch.setattr(OomWatch, "verdict", lambda *_: counted)
    said = ", likely out of memory" if counted else " (the kernel reports no out-of-memory kill)"
    cause = failure_of(lose_a_child, args=(signal.SIGKILL,)).cause
    assert cause.note.endswith(f"was killed by SIGKILL{said}")
    assert cause.out_of_memory is counted
    pool = failure_of(lose_one_of_a_pool).cause
    assert pool.note == ("a process of its pool was killed, likely out of memory" * counted)


@pytest.mark.parametrize("program", [lose_a_child, die])
def test_a_bus_error_says_how_full_shared_memory_is(program):
    cause = failure_of(program, args=(signal.SIGBUS,)).cause
    assert "/dev/shm has " in cause.note
    assert ("its child" in cause.note) == (program is lose_a_child)
