"""Ranks that write into their outcome channels themselves: what they may make their launcher do."""

import logging
import resource
import sys

import pytest

import procession
from procession import GroupFailed, Outcome, Script
from support import OBEDIENT, write

# A script in a rank: `tell(kind, body, length)` writes a frame into the channel that it inherited.
TELL = """
    import os, pickle, stat, struct, sys, time
    def channel():
        for name in os.listdir("/proc/self/fd"):
            try:
                if int(name) > 2 and stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    return int(name)
            except OSError:
                pass
    def tell(kind, body, length=None):
        length = len(body) if length is None else length
        os.write(channel(), struct.pack("<cQq", kind, length, time.monotonic_ns()) + body)
    class Touch:
        def __reduce__(self):
            return open, (sys.argv[1], "w")
"""
VALUE = """
    tell(b"V", pickle.dumps(Touch()))
"""
EXCEPTION = """
    import base64, json
    parts = {"frames": [], "pickle": base64.b64encode(pickle.dumps(Touch())).decode()}
    tell(b"E", json.dumps({"kind": "raised", "type": "T", "message": "m", **parts}).encode())
    sys.exit(1)
"""
FLOOD = """
    tell(b"V", b"", 1 << 60)
    for _ in range(300):
        os.write(channel(), b"x" * (1 << 20))
"""


@pytest.fixture
def script(tmp_path):
    def make(body, *args):
        path = tmp_path / "rank.py"
        write(path, TELL + body)
        return Script(str(path), args)

    return make


def test_the_pickle_of_a_script_is_not_loaded(script, tmp_path, caplog):
    made = tmp_path / "made by the launcher"
    with caplog.at_level(logging.WARNING, "procession"):
        assert procession.run(script(VALUE, str(made)), nproc=2, stop=OBEDIENT) == [None, None]
    assert not made.exists()
    (said,) = [r.getMessage() for r in caplog.records]  # once for all ranks
    assert "it sent a pickled value, which only functions may" in said


def test_the_exception_of_a_script_is_not_rebuilt(script, tmp_path):
    made = tmp_path / "made by the launcher"
    with pytest.raises(GroupFailed) as caught:
        procession.run(script(EXCEPTION, str(made)), nproc=1)
    assert caught.value.cause.outcome is Outcome.RAISED
    assert caught.value.__cause__ is None
    assert not made.exists()


def test_an_announced_length_is_not_waited_for_nor_kept(script):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert procession.run(script(FLOOD), nproc=1) == [None]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # kB


def test_a_child_that_writes_without_end_does_not_keep_its_group(script):
    body = f"""
    import subprocess
    code = "while True: __import__('os').write({{}}, b'x' * 4096)".format(channel())
    subprocess.Popen([{sys.executable!r}, "-c", code], pass_fds=[channel()])
    os._exit(3)
"""
    with pytest.raises(GroupFailed) as caught:
        procession.run(script(body), nproc=1, stop=OBEDIENT, timeout=30)
    assert caught.value.cause.exit.code == 3
