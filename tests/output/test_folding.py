"""Progress bars of several ranks on one console."""

import pytest
from following import Rank, following, piped

from seams.output import Feed, Fold, FoldingScreen, Follower


@pytest.mark.parametrize("in_place", [True, False])
def test_the_last_state_of_a_bar_stays(in_place, monkeypatch):
    monkeypatch.setattr(Feed, "partial_after", 0.01)

    def screen_of(console):
        return FoldingScreen(console, Fold(2), lambda ranks: b"", in_place=in_place)

    with piped() as (console, viewer), following(console) as plain:
        plain.close()
        follower = Follower(console, console, screen_of=screen_of)
        with Rank(follower, 0) as rank, Rank(follower, 1) as other:
            rank.write(b"\r5/5 of 0")
            viewer.until(b"5/5 of 0")
            other.write(b"\r4/5 of 1")
            viewer.until(b"4/5 of 1")
            rank.write(b"\n")
            viewer.until(b"[0] 5/5 of 0\n")
        assert follower.drain(10)
        assert viewer.look().endswith(b"[1] 4/5 of 1\n")
