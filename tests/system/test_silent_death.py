"""A rank that dies without a word wakes its peers, which say something before it can be reaped."""

import collections
import importlib.util
import os
import signal
import socket
import time

import failurepairs
import pytest

import procession
from support import failure_of, write

WAYS = {"exit": 3, "kill": -signal.SIGKILL, "segv": -signal.SIGSEGV}
TIMES = 8


def die(how):
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSEGV)
    while True:
        signal.pause()


def work(place, how):
    """Rank 0 dies, connected with the others, who raise when they see it."""
    if os.environ["RANK"] == "0":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(place)
            server.listen(8)
            peers = [server.accept()[0] for _ in range(int(os.environ["WORLD_SIZE"]) - 1)]
            assert peers
            die(how)
    deadline = time.monotonic() + 20
    while True:
        try:
            peer = socket.socket(socket.AF_UNIX)
            peer.connect(place)
            break
        except OSError:
            assert time.monotonic() < deadline
            peer.close()
    if not peer.recv(1):
        raise ConnectionError("the peer is gone")


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_who_dies_without_a_word_is_the_cause_and_not_its_peers(tmp_path, method, how):
    blamed = collections.Counter()
    for i in range(TIMES):
        args = (str(tmp_path / f"socket{i}"), how)
        failed = failure_of(work, args=args, nproc=4, start_method=method)
        blamed[failed.cause.rank] += 1
        assert failed.cause.exit.returncode == WAYS[how], str(failed)
        assert all(end.rank != 0 for end in failed.ended)
    assert blamed == {0: TIMES}


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_the_outcome_channel_is_above_what_a_program_opens(method):
    """The kernel ends the descriptors of a dead process from the highest number down."""

    def opened():
        import os
        import socket

        sockets = [socket.socket() for _ in range(100)]
        own = {s.fileno() for s in sockets}
        channels = []
        for fd in map(int, os.listdir("/proc/self/fd")):
            try:
                place = os.readlink(f"/proc/self/fd/{fd}")
            except OSError:  # of the listing
                continue
            if place.startswith("socket:") and fd > 2 and fd not in own:
                channels.append(fd)
        return max(own), max(channels)

    for highest_socket, channel in procession.run(opened, nproc=2, start_method=method):
        assert channel > highest_socket


def test_of_scripts(tmp_path):
    script = write(
        tmp_path / "main.py",
        """
        import sys
        from test_silent_death import work
        work(*sys.argv[1:])
        """,
    )
    program = procession.Script(str(script))
    places = (__file__, write.__code__.co_filename)
    here = {"PYTHONPATH": os.pathsep.join(os.path.dirname(p) for p in places)}
    for i in range(TIMES):
        failed = failure_of(program, args=(str(tmp_path / f"s{i}"), "kill"), nproc=3, env=here)
        assert (failed.cause.rank, failed.exit_code) == (0, 137), str(failed)


GLOO = """
import os, signal, torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.ones(1000)
for i in range(1000):
    if dist.get_rank() == 2 and i == 50:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(value)
"""


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_in_a_collective_of_torch(tmp_path):
    script = write(tmp_path / "gloo.py", GLOO)
    failed = failure_of(procession.Script(str(script)), nproc=4)
    assert (failed.cause.rank, failed.exit_code) == (2, 137), str(failed)


def test_a_signal_that_we_did_not_send_is_not_called_ours(tmp_path):
    """Rank 0 fails; rank 1 takes our stop signal for a reason to kill itself otherwise."""

    def work(ready):
        import os
        import signal
        import time

        if os.environ["RANK"] == "1":
            signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            open(ready, "w").close()
            while True:
                signal.pause()
        while not os.path.exists(ready):
            time.sleep(0.001)
        raise ValueError

    failed = failure_of(work, args=(str(tmp_path / "ready"),), nproc=2)
    assert failed.cause.rank == 0
    assert "was ended by SIGKILL" not in str(failed)
    assert "was killed by SIGKILL" in str(failed)


def test_a_program_that_closed_all_descriptors_long_ago_dies_when_it_dies(tmp_path):
    script = write(
        tmp_path / "main.py",
        """
        import os, time
        os.closerange(3, 1000)
        time.sleep(1.2)
        os._exit(3)
        """,
    )
    failed = failure_of(procession.Script(str(script)), nproc=1)
    assert failed.cause.seconds >= 1.2


@pytest.mark.parametrize("gap", [0.001, pytest.param(0.005, marks=pytest.mark.long), 0.02])
def test_of_two_failures_a_wrong_one_is_never_named_alone(tmp_path, gap):
    """All ways to fail, one after another; `failurepairs.py` measures more of them."""
    counts = collections.Counter()
    for n, (first, ways) in enumerate(failurepairs.pairs()):
        said, _ = failurepairs.judge(tmp_path / str(n), first, ways, gap)
        counts[said] += 1
    assert counts["wrong"] == 0, counts
    if gap >= 0.02:  # nor is everything called simultaneous
        assert counts["right"] > counts["simultaneous"] + counts["unknown"], counts
