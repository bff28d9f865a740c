"""Groups of more ranks than are asked for at once."""

import pytest

import procession
from procession import Restart
from support import shell

MANY = 150


def test_the_agent_holds_the_descriptors_of_few_ranks(tmp_path):
    procession.run(shell(f"ls /proc/$PPID/fd | wc -l > {tmp_path}/$RANK"), nproc=MANY)
    held = [int((tmp_path / str(rank)).read_text()) for rank in range(MANY)]
    # Two for each of 63, its own, and pidfds that are to be sent; those of all were 300.
    assert max(held) < 190


@pytest.mark.parametrize("scope", ["group", "rank"])
@pytest.mark.parametrize("first", [0, pytest.param(MANY - 1, marks=pytest.mark.long)])
def test_all_are_started_when_one_fails_at_once_and_starts_again(scope, first):
    fails_once = shell(f"[ $RANK != {first} ] || [ $TORCHELASTIC_RESTART_COUNT != 0 ]")
    restart = Restart(max=1, backoff=0, scope=scope)
    group = procession.start(fails_once, nproc=MANY, restart=restart)
    group.wait(60)
    last = {e.rank: e for e in group if e.kind == "exited"}
    assert set(last) == set(range(MANY))
    assert {e.facts["ended"] for e in last.values()} == {"finished"}
    assert last[first].attempt == 1
