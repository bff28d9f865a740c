"""Nothing outlives its launcher, however it ends; and what an exit waits for."""

import os
import signal

import facework
import pytest
from facesupport import METHODS, tidy  # noqa: F401

import procession.multiprocessing as mp
from support import SAY_WHEN_IN, Launcher, gone, run_python, until, write


def launcher(tmp_path, source):
    """Write a script whose ranks can import `facework`."""
    head = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import facework, os, signal, time
import procession.multiprocessing as mp
"""
    return write(tmp_path / "main.py", head + SAY_WHEN_IN + source)


def numbers(folder, *names):
    return [int(n) for name in names for n in (folder / name).read_text().split()]


@pytest.mark.parametrize("method", METHODS)
def test_grandchildren_are_ended(tmp_path, method):
    """The original leaves them."""
    with pytest.raises(mp.ProcessRaisedException):
        mp.start_processes(
            facework.with_grandchildren, (str(tmp_path),), nprocs=2, start_method=method
        )
    gone(numbers(tmp_path, "child0", "child1"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ranks_die_with_their_launcher(tmp_path, method, number):
    script = launcher(
        tmp_path,
        f"""
if __name__ == "__main__":
    group = mp.start_processes(
        facework.pause, nprocs=2, join=False, start_method="{method}"
    )
    print("pids", *group.pids())
    group.join()
""",
    )
    with Launcher(script) as running:
        pids = [int(p) for p in running.said("pids").split()]
        running.signal(number)
        assert running.end() == -number
    gone(pids)


@pytest.mark.parametrize("join", [True, False])
def test_keyboard_interrupt_reaches_ranks(tmp_path, join):
    """As from a terminal, where the original's ranks get it themselves."""
    script = launcher(
        tmp_path,
        f"""
def work(i, folder):
    try:
        facework.note(folder, f"pid{{i}}", str(os.getpid()))
        facework.pause(i)
    finally:
        facework.note(folder, f"cleaned{{i}}")

if __name__ == "__main__":
    say_when_in("join", "wait")
    group = mp.spawn(work, ({str(tmp_path)!r},), nprocs=2, join={join})
    while not group.join():
        pass
""",
    )
    with Launcher(script) as running:
        for i in range(2):
            until(lambda i=i: (tmp_path / f"pid{i}").exists())
        running.said("waits")
        running.signal(signal.SIGINT)
        assert running.end() == -signal.SIGINT
        assert running.lines[-1] == "KeyboardInterrupt"
    assert (tmp_path / "cleaned0").exists()
    assert (tmp_path / "cleaned1").exists()
    gone(numbers(tmp_path, "pid0", "pid1"))


# -- ranks that nobody joined, when the launcher exits


def run_to_the_end(tmp_path, source):
    return run_python(launcher(tmp_path, source), timeout=40)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_an_exit_waits_for_what_is_not_daemonic(tmp_path, method, order):
    done = run_to_the_end(
        tmp_path,
        f"""
{"import multiprocessing.util" if order == "theirs first" else ""}
def work(i, folder):
    facework.waits_for(os.path.join(folder, "gate"))
    print("rank", i, "is done")

if __name__ == "__main__":
    import atexit
    mp.start_processes(work, ({str(tmp_path)!r},), nprocs=2, join=False, start_method="{method}")
    atexit.register(lambda: facework.note({str(tmp_path)!r}, "gate"))
    print("main is done", flush=True)
""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("main is done\n")
    assert sorted(done.stdout.splitlines()[1:]) == ["rank 0 is done", "rank 1 is done"]


@pytest.mark.parametrize("method", METHODS)
def test_an_exit_ends_what_is_daemonic(tmp_path, method):
    done = run_to_the_end(
        tmp_path,
        f"""
if __name__ == "__main__":
    group = mp.start_processes(
        facework.pause, nprocs=2, join=False, daemon=True, start_method="{method}"
    )
    print(*group.pids())
""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    gone(map(int, done.stdout.split()))


def test_an_exit_does_not_wait_for_the_ranks_of_a_failed_group(tmp_path):
    """The original waits for the others, which may wait for the one that failed, for ever."""
    done = run_to_the_end(
        tmp_path,
        """
if __name__ == "__main__":
    group = mp.spawn(facework.raise_in, (1,), nprocs=2, join=False)
    print(*group.pids())
""",
    )
    assert done.returncode == 0
    gone(map(int, done.stdout.split()))
    assert "rank 1 of 2" in done.stderr  # the report, which nobody asked for by `join`
    assert "ValueError: no such batch 1" in done.stderr
