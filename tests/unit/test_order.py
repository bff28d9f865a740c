"""By how much it is in doubt when a rank died that told nothing."""

import signal
from types import SimpleNamespace

import pytest

from seams.agent import order

MS = 1_000_000
SEEN = 500 * MS


@pytest.mark.parametrize(
    ("woke_late", "doubt"),
    [(0, 8 * MS), (30 * MS, 30 * MS), (900 * MS, 50 * MS)],
    ids=["at once", "on a busy machine", "since the look before"],
)
def test_an_agent_that_got_no_cpu_does_not_know_when_a_channel_ended(woke_late, doubt):
    loop = SimpleNamespace(
        looked_before=450 * MS, looked=SEEN, slept=True, woke_late=lambda: woke_late
    )
    process = order.Process(rank=0, pid=1, began=400 * MS)
    deaths = order.Order(loop, [process])
    deaths.silent(process)
    assert deaths.failed(process, signal.SIGSEGV, 0, SEEN, None) == (SEEN, doubt)
