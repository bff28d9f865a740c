"""Which of two failures came first."""

import os
import signal
import time

import pytest

import procession
from seams.agent import BeforeStop, order
from support import alive, until


def wait_and_fail(now):
    if os.environ["RANK"] == "1":
        time.sleep(1000)
    while not now.exists():
        time.sleep(0.001)
    raise ValueError("first")


def test_a_rank_that_dies_while_stacks_are_taken_failed_later(tmp_path, monkeypatch):
    """It was seen to live before, so the other one is named alone."""
    hold, now = BeforeStop.hold, tmp_path / "now"

    def slow(self, action, go_on):
        other = self._processes[1].pid
        if now.exists() and alive(other):
            time.sleep(0.003)  # more than what counts as at the same time
            os.kill(other, signal.SIGKILL)
            until(lambda: not alive(other))
        return hold(self, action, go_on)

    monkeypatch.setattr(order, "FIRST_LOOK_NS", 10**10)  # a busy machine may take longer
    monkeypatch.setattr(BeforeStop, "hold", slow)  # in the agent: it is a fork of this process
    options = {"args": (now,), "nproc": 2, "start_method": "fork"}
    with procession.start(wait_and_fail, **options) as group:
        until(lambda: group.look()["state"] == "RUNNING")
        now.touch()
        with pytest.raises(procession.GroupFailed) as caught:
            group.wait()
    assert [end.rank for end in caught.value.end.together] == [0]
