"""`agent.forking`: ranks that were asked for can be called back until they are forked."""

import os
import signal
from unittest.mock import Mock, patch

import pytest

from seams.agent import Forking
from seams.system import prctl

MAPS = """\
200000-400000 rw-p 00000000 00:00 0
5ff000-a01000 rw-p 00000000 00:00 0    [heap]
c00001-dff000 rw-p 00000000 00:00 0
c00000-e00000 r--p 00000000 00:00 0
c00000-e00000 rw-p 00000000 08:01 77   /usr/lib/a.so
c00000-e00000 rw-s 00000000 00:00 0
"""


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("always [madvise] never", [(0x200000, 0x200000), (0x600000, 0x401000)]),
        ("always madvise [never]", []),
        (None, []),
    ],
)
def test_private_memory_is_put_together_where_the_administrator_allows_it(setting, expected):
    files = {"/sys/kernel/mm/transparent_hugepage/enabled": setting, "/proc/self/maps": MAPS}
    with patch.object(prctl, "read", files.get), patch.object(prctl.ctypes, "CDLL") as libc:
        prctl.gather_memory()
    assert [
        (call.args[0].value, call.args[1].value)
        for call in libc.return_value.madvise.call_args_list
    ] == expected


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
