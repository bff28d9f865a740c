"""Which of two failures came first."""

import os
import signal
import time

import pytest

import procession
from seams.supervise import lastlook
from support import alive, until


def wait_and_fail(now):
    if os.environ["RANK"] == "1":
        time.sleep(1000)
    while not now.exists():
        time.sleep(0.001)
    raise ValueError("first")


def test_a_rank_that_dies_while_stacks_are_taken_failed_later(tmp_path, monkeypatch):
    """It was seen to live before, so the other one is named alone."""
    hold, now = lastlook.LastLook.hold, tmp_path / "now"
    with procession.start(wait_and_fail, args=(now,), nproc=2) as group:
        until(lambda: group.look()["state"] == "RUNNING")
        other = group.pids()[1]

        def slow(self, action, go_on):
            if now.exists() and alive(other):
                time.sleep(0.003)  # more than what counts as at the same time
                os.kill(other, signal.SIGKILL)
                until(lambda: not alive(other))
            return hold(self, action, go_on)

        monkeypatch.setattr(lastlook.LastLook, "hold", slow)
        now.touch()
        with pytest.raises(procession.GroupFailed) as caught:
            group.wait()
    assert [end.rank for end in caught.value.end.together] == [0]
