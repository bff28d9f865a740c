"""A source that shows only some of its lines."""

import pytest
from following import Rank, following, piped


def even(line):
    return int(line.rpartition(b" ")[2]) % 2 == 0


@pytest.fixture(params=["pipe", "file"])
def file(request, tmp_path):
    return None if request.param == "pipe" else tmp_path / "stdout.log"


def test_lines_that_are_not_kept_are_not_shown(file):
    with piped() as (console, viewer), following(console) as follower:
        with Rank(follower, 0, file=file, keep=even) as rank:
            rank.write(b"line 1\nline 2\nline 3\n")
            rank.write(b"line 4\n")
            assert follower.drain(5)
        assert viewer.look() == b"[0] line 2\n[0] line 4\n"
        assert follower.tail(0, "out") == ["line 1", "line 2", "line 3", "line 4"]


def test_only_whole_lines_are_judged(file):
    """`line 1` and `2`: as a part it would be thrown away, as a whole it is kept."""
    with piped() as (console, viewer), following(console, partial_after=0) as follower:
        with Rank(follower, 0, file=file, keep=even) as a, Rank(follower, 1) as b:
            a.write(b"line 1")
            b.write(b"part")
            viewer.until(b"part")
            a.write(b"2\n")
            viewer.until(b"line 12\n")
            a.write(b"line 4")
            assert follower.drain(5)
        assert viewer.look() == b"[1] part\n[0] line 12\n[0] line 4\n"


def test_progress_is_judged_by_its_final_state():
    with piped() as (console, viewer), following(console, partial_after=0) as follower:
        with Rank(follower, 0, keep=even) as a, Rank(follower, 1) as b:
            a.write(b"at 2\rat 4\r")
            b.write(b"part")
            viewer.until(b"part")
            a.write(b"at 5\nat 6\n")
            assert follower.drain(5)
        assert viewer.look() == b"[1] part\n[0] at 6\n"
