"""Log files that take no more: what their writers could not write there is shown all the same."""

import os

import pytest
from following import Rank, following, piped

from seams.output import Source

NEVER = 1000.0  # seconds: a deadline that is not part of the test


@pytest.fixture
def console():
    with piped() as (console, viewer):
        console.viewer = viewer
        yield console


class Spared(Rank):
    """A rank with a log file, and a pipe to which it turns."""

    def __init__(self, follower, path, rank=0):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        spare, self._pipe = os.pipe()
        source = Source(rank, "out", prefix=b"[%d] " % rank)
        follower.add_file(path, source, spare=spare)

    def turn(self):
        os.dup2(self._pipe, self.fd)

    def close(self):
        os.close(self._pipe)
        super().close()


def test_a_line_goes_on_where_the_file_ends(console, tmp_path):
    with following(console, partial_after=NEVER) as follower:
        with Spared(follower, tmp_path / "log") as rank:
            rank.write(b"one\ntwo, the fir")
            rank.turn()
            rank.write(b"st half\nthree\n")
            shown = b"[0] one\n[0] two, the first half\n[0] three\n"
            assert console.viewer.until(b"three\n") == shown
            assert follower.is_cut(0, "out")
            assert follower.tail(0, "out") == ["one", "two, the first half", "three"]
        assert follower.drain(5)
        assert console.viewer.look() == shown
    assert (tmp_path / "log").read_bytes() == b"one\ntwo, the fir"


def test_the_file_is_shown_before_the_pipe(console, tmp_path):
    text = b"".join(b"line %d\n" % i for i in range(100_000))
    with following(console, partial_after=NEVER) as follower:
        with Spared(follower, tmp_path / "log") as rank:
            rank.write(text)
            rank.turn()
            rank.write(b"behind it\n")
            console.viewer.until(b"behind it\n")
        lines = console.viewer.seen.splitlines()
        assert lines[:-1] == [b"[0] line %d" % i for i in range(100_000)]
        assert lines[-1] == b"[0] behind it"


def test_a_drain_shows_what_the_pipe_holds_and_waits_for_nobody(console, tmp_path):
    with (
        following(console, partial_after=NEVER) as follower,
        Spared(follower, tmp_path / "log") as rank,
    ):
        rank.write(b"in the file\n")
        rank.turn()
        rank.write(b"x" * 30_000 + b"\nlast words")
        assert follower.drain(5)  # though the pipe is open
        seen = console.viewer.look()
        assert seen == b"[0] in the file\n[0] " + b"x" * 30_000 + b"\n[0] last words\n"


def test_who_never_turned_is_not_cut(console, tmp_path):
    with following(console) as follower:
        with Spared(follower, tmp_path / "log") as rank:
            rank.write(b"one\n")
        with Spared(follower, tmp_path / "other", rank=1) as rank:
            rank.write(b"one\n")
            console.viewer.until(b"[1] one\n")
        assert follower.drain(5)
        assert not follower.cut


def test_a_rank_that_starts_again_has_a_new_file_and_a_new_pipe(console, tmp_path):
    with following(console, partial_after=NEVER) as follower:
        with Spared(follower, tmp_path / "first") as rank:
            rank.turn()
            rank.write(b"one\n")
        with Spared(follower, tmp_path / "second") as rank:
            rank.write(b"two\n")
            console.viewer.until(b"two\n")
            assert not follower.is_cut(0, "out")
            assert follower.cut  # it was
        assert console.viewer.look() == b"[0] one\n[0] two\n"


def test_a_copy_of_what_comes_through_a_pipe(console, tmp_path):
    copy = os.open(tmp_path / "copy", os.O_WRONLY | os.O_CREAT)
    r, w = os.pipe()
    with following(console) as follower:
        follower.add_pipe(r, Source(0, "out", prefix=b"[0] "), copy)
        os.write(w, b"one\ntwo")
        os.close(w)
        assert follower.drain(5)
        assert not follower.cut
    assert console.viewer.look() == b"[0] one\n[0] two\n"
    assert (tmp_path / "copy").read_bytes() == b"one\ntwo"


def test_a_copy_that_takes_nothing(console):
    r, w = os.pipe()
    with following(console) as follower:
        follower.add_pipe(r, Source(0, "out", prefix=b"[0] "), os.open("/dev/full", os.O_WRONLY))
        os.write(w, b"one\n")
        console.viewer.until(b"one\n")
        os.write(w, b"two\n")
        os.close(w)
        assert follower.drain(5)
        assert follower.cut
    assert console.viewer.look() == b"[0] one\n[0] two\n"
