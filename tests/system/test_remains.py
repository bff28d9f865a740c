"""What is left of a group whose agent is killed: nothing is taken for gone that is not."""

import ctypes
import os
import signal
import subprocess
import threading

import pytest

import procession
from chaos.processes import parent
from procession import GroupFailed
from support import METHODS, OBEDIENT, shell, until

MEMORY = 100 << 20


def large_family(place):
    """Have a child and an orphan, which take their time to end: they have much memory.

    The first thread of the orphan ends, and another one goes on. All hold a pipe open.
    """
    os.open(f"{place}/held", os.O_WRONLY)

    def stay(name):
        memory = bytearray(b"x") * MEMORY
        open(f"{place}/{name}", "w").close()
        while memory:
            signal.pause()

    rank = os.environ["RANK"]
    if not os.fork():
        stay(f"child{rank}")
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        threading.Thread(target=stay, args=(f"orphan{rank}",)).start()
        ctypes.CDLL(None).syscall(60, 0)  # exit, of a thread
    signal.pause()


@pytest.mark.parametrize("method", [METHODS[0], METHODS[2]])
def test_group_is_over_when_memory_and_files_are_given_up(tmp_path, method):
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    options = {"nproc": 2, "stop": OBEDIENT, "start_method": method}
    group = procession.start(large_family, args=(str(tmp_path),), **options)
    until(lambda: len(list(tmp_path.glob("[co]*"))) == 4, "the families")
    with pytest.raises(BlockingIOError):
        os.read(held, 1)
    os.kill(parent(group.pids()[0]), signal.SIGKILL)
    with pytest.raises(GroupFailed):
        group.wait(20)
    assert os.read(held, 1) == b""  # nobody has it any more
    os.close(held)


def test_who_has_the_number_of_a_rank_that_had_ended_lives_on():
    group = procession.start(shell("test $RANK = 0 || exec sleep 1000"), nproc=2, stop=OBEDIENT)
    until(lambda: group.exit_of(0), "the end of rank 0")
    other = subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True)
    group.driver.machine.records[0].pid = other.pid  # as if the kernel had given it out again
    os.kill(parent(group.pids()[1]), signal.SIGKILL)
    with pytest.raises(GroupFailed):
        group.wait(20)
    assert other.poll() is None
    other.communicate()
