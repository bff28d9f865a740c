"""Lines between the processes of the plugin."""

import os

import pytest

from seams.pytest_plugin import pair


def test_a_line_to_a_process_that_has_ended_before_it_was_known():
    """Somebody else may have a copy of its end, which thus does not end by itself."""
    ours, theirs = pair()
    try:
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)
        theirs.send("last word")
        ours.ends_with(pid)
        assert ours.receive() == "last word"
        with pytest.raises(EOFError):
            ours.receive()
    finally:
        ours.close()
        theirs.close()
