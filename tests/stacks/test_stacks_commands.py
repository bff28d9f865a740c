"""Programs that cannot answer are described by the state of their processes."""

import procession
from seams.explain import merge
from seams.system import state_of
from support import QUICK, until


def asleep(pid):
    state = state_of(pid)
    return state is not None and state.letter == "S"


def test_commands_have_the_state_of_their_processes():
    with procession.start(["sleep", "1000"], nproc=2, stop=QUICK) as group:
        for pid in group.pids().values():
            until(lambda pid=pid: asleep(pid), "a sleeping rank")
        stacks = group.stacks()
    assert [s["rank"] for s in stacks] == [0, 1]
    for found in stacks:
        assert found["frames"] == []
        assert found["state"].startswith("sleeps")
    assert merge.format(stacks).startswith("2 ranks [0-1] sleep ")
