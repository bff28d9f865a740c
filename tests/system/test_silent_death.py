"""A rank that dies without a word wakes its peers, which say something before it can be reaped."""

import os
import signal
import socket
import time

import pytest

from support import METHODS, failure_of

WAYS = {"exit": 3, "kill": -signal.SIGKILL, "segv": -signal.SIGSEGV}


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
@pytest.mark.parametrize("method", METHODS)
def test_who_dies_without_a_word_is_the_cause_and_not_its_peers(tmp_path, method, how):
    failed = failure_of(work, args=(str(tmp_path / "socket"), how), nproc=4, start_method=method)
    assert failed.cause.rank == 0
    assert failed.cause.exit.returncode == WAYS[how], str(failed)
    assert all(end.rank != 0 for end in failed.ended)
