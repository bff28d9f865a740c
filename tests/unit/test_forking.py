"""`agent.forking`: ranks that were asked for can be called back until they are forked."""

import os
import signal
from unittest.mock import Mock

from seams.agent import Forking


def job(rank, place):
    return {"rank": rank, "kind": "exec", "fds": {"stdin": place}, "inherit": (), "env": {}}


def forking():
    return Forking(Mock(holds=False), (), {signal.SIGCHLD: signal.SIG_DFL}, lambda: None)


def test_a_rank_whose_descriptors_were_dropped_fails_alone():
    """The kernel drops descriptors for which there is no room: those of others may be there."""
    read_end, write_end = os.pipe()
    waiting = forking()
    waiting.ask([job(3, 1), job(4, 0)], [read_end, -1])
    group = Mock()
    assert waiting.fork({}, None, group) is None
    assert group.failed.call_args.args[:2] == (3, "make its pipes")
    assert os.path.exists(f"/proc/self/fd/{read_end}")
    assert waiting.next[0]["rank"] == 4
    waiting.cancel()
    assert not waiting.due
    assert not os.path.exists(f"/proc/self/fd/{read_end}")
    os.close(write_end)
