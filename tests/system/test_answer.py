"""A rank that has reported its failure exits when the others were looked at and asked to end."""

import sys
import time

import pytest

import procession
from procession import GroupFailed
from support import METHODS

LONG, SHORT = 60_000, 2_000  # milliseconds that a rank waits for its answer, at most


def work(place, answer_ms):
    """Rank 0 fails; the others notice at once when its connections end."""
    import os
    import socket

    sys.modules["procession.worker.outcome"].ANSWER_MS = answer_ms
    rank, others = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) - 1
    sock = socket.socket(socket.AF_UNIX)
    if rank:
        while sock.connect_ex(f"{place}/socket"):
            time.sleep(0.001)
        if not sock.recv(1):
            raise ConnectionError("closed by its peer")
        return
    sock.bind(f"{place}/socket")
    sock.listen()
    kept = [sock.accept()[0] for _ in range(others)]
    while not os.path.exists(f"{place}/go"):
        time.sleep(0.001)
    assert kept[0].fileno() < 0, "the first failure"


def assert_one_failed(failed):
    assert [end.rank for end in failed.end.failures] == [0]
    assert " in work (test_answer.py:" in str(failed), str(failed)


@pytest.mark.parametrize("method", METHODS)
def test_ranks_that_only_wait_do_not_fail_as_well(tmp_path, method):
    group = procession.start(work, args=(str(tmp_path), LONG), nproc=3, start_method=method)
    reported = []

    def delay(event):  # the launcher is late, as on a busy machine
        if event.kind == "reported":
            reported.append(event.rank)
            time.sleep(0.1)

    group.hear(delay)
    (tmp_path / "go").touch()
    with pytest.raises(GroupFailed) as caught:
        group.wait(60)
    assert_one_failed(caught.value)
    assert reported == [0]
