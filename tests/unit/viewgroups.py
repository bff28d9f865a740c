"""Groups of ranks of all kinds, for the tests of the live view."""

from hypothesis import strategies as st

from seams.view import RankView, Usage

RUNNING = {"state": "RUNNING"}
FAILED = {"state": "EXITED", "exit": "exit code 1", "ended": "FAILED", "failed": True}
FINISHED = {"state": "EXITED", "exit": "exit code 0", "ended": "FINISHED"}

amounts = st.none() | st.floats(0, 1e6)
lives = st.sampled_from(
    [RUNNING, {"state": "STARTING"}, FAILED, FINISHED, {"state": "LOST", "ended": "LOST"}]
)


kinds = st.builds(
    lambda life, **more: {**life, **more},
    lives,
    step=amounts,
    total=st.sampled_from([None, 0, 1000.0]),
    quiet=amounts,
    usage=st.builds(Usage, memory=st.none() | st.integers(0, 1 << 40)),
)


@st.composite
def groups(draw):
    """Give up to 80 ranks of up to 6 kinds."""
    there = draw(st.lists(kinds, min_size=1, max_size=6))
    chosen = draw(st.lists(st.sampled_from(there), min_size=1, max_size=80))
    return [RankView(rank=rank, **kind) for rank, kind in enumerate(chosen)]
