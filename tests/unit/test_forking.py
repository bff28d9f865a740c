"""`agent.forking`: ranks that were asked for can be called back until they are forked."""

import os
import signal
from types import SimpleNamespace

from seams.agent import Forking


def job(rank, place):
    return {"rank": rank, "kind": "exec", "fds": {"stdin": place}, "inherit": (), "env": {}}


def forking():
    loop = SimpleNamespace(holds=False)
    return Forking(loop, (), {signal.SIGCHLD: signal.SIG_DFL}, lambda: None)


def test_a_rank_whose_descriptors_were_dropped_fails_alone():
    """The kernel drops descriptors for which there is no room: those of others may be there."""
    read_end, write_end = os.pipe()
    waiting = forking()
    waiting.ask([job(3, 1), job(4, 0)], [read_end, -1])
    failed = []
    run = SimpleNamespace(failed=lambda *words: failed.append(words[:2]))
    assert waiting.fork({}, None, run) is None
    assert failed == [(3, "make its pipes")]
    assert is_open(read_end)
    assert waiting.next[0]["rank"] == 4
    waiting.cancel()
    assert not waiting.due
    assert not is_open(read_end)
    os.close(write_end)


def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
