"""What a console shows of what ranks write."""

import os
from contextlib import ExitStack

import pytest
from following import Rank, following, piped, terminal, until

from seams.output import Console

NEVER = 1000.0  # seconds: a deadline that is not part of the test


@pytest.fixture(params=["pipe", "file"])
def file(request, tmp_path):
    """None for ranks that write to a pipe, a path for those whose file is followed."""
    return None if request.param == "pipe" else tmp_path / "stdout.log"


def test_whole_lines_each_with_a_prefix(console, file):
    with following(console) as follower, Rank(follower, 3, file=file) as rank:
        rank.write(b"one\ntwo\n\nfour\n")
        assert console.viewer.until(b"four\n") == b"[3] one\n[3] two\n[3] \n[3] four\n"
        assert follower.tails[3, "out"].lines() == ["one", "two", "", "four"]
        assert follower.drain(5)
        assert console.viewer.look().count(b"\n") == 4


def test_drain_shows_everything(console, file):
    with following(console, partial_after=NEVER) as follower:
        with Rank(follower, 0, file=file) as rank:
            for i in range(1000):
                rank.write(b"line %d\n" % i)
            rank.write(b"last words")
        assert follower.drain(5)
        expected = b"".join(b"[0] line %d\n" % i for i in range(1000)) + b"[0] last words\n"
        assert console.viewer.look() == expected
        assert follower.tails[0, "out"].lines()[-1] == "last words"
        assert follower.drain(5)


def test_partial_line_and_its_continuation(console, file):
    with following(console, partial_after=0.01) as follower, Rank(follower, 0, file=file) as rank:
        rank.write(b"Password: ")
        console.viewer.until(b"[0] Password: ")
        rank.write(b"wrong")
        console.viewer.until(b"wrong")
        rank.write(b"!\nnext\n")
        assert console.viewer.until(b"next\n") == b"[0] Password: wrong!\n[0] next\n"
        assert follower.tails[0, "out"].lines() == ["Password: wrong!", "next"]


def test_partial_lines_of_two_ranks(console):
    with (
        following(console, partial_after=0.01) as follower,
        Rank(follower, 0) as a,
        Rank(follower, 1) as b,
    ):
        a.write(b"from a")
        console.viewer.until(b"from a")
        b.write(b"from b")
        console.viewer.until(b"from b")
        a.write(b", more\n")
        console.viewer.until(b"more\n")
        b.write(b"\n")  # its line was ended already
        b.write(b"end\n")
        assert console.viewer.until(b"end\n") == (b"[0] from a\n[1] from b\n[0] , more\n[1] end\n")
        assert follower.tails[0, "out"].lines() == ["from a, more"]


def test_partial_line_waits_for_its_end(console):
    """`hel`, `lo`: one line, as long as the deadline has not passed."""
    with following(console, partial_after=NEVER) as follower, Rank(follower, 0) as rank:
        rank.write(b"hel")
        until(lambda: follower.tails[0, "out"].lines() == ["hel"])
        rank.write(b"lo\n")
        assert console.viewer.until(b"\n") == b"[0] hello\n"


def test_characters_and_colours_arrive_in_one_piece(console):
    with following(console, partial_after=0.01) as follower, Rank(follower, 0) as rank:
        rank.write(b"caf" + "é".encode()[:1])
        console.viewer.until(b"caf")
        rank.write("é".encode()[1:] + b" \x1b[3")
        console.viewer.until("é ".encode())
        rank.write(b"1mred\n")
        assert console.viewer.until(b"\n") == "[0] café \x1b[31mred\n".encode()


def test_two_streams_of_one_console_share_the_line():
    with terminal() as (out, viewer), ExitStack() as stack:
        again = Console(stack.enter_context(os.fdopen(os.dup(out._fd), "w")))
        stack.callback(again.close)
        follower = stack.enter_context(following(out, again, partial_after=0.01))
        stdout = stack.enter_context(Rank(follower, 0, prefix=b""))
        stderr = stack.enter_context(Rank(follower, 0, "err", prefix=b""))
        stdout.write(b"Loading...")
        viewer.until(b"Loading...")
        stderr.write(b"warning\n")
        assert viewer.until(b"warning\n") == b"Loading...\nwarning\n"


def test_streams_go_to_their_consoles(console):
    with piped() as (other, viewer), following(console, other) as follower:
        with Rank(follower, 0) as out, Rank(follower, 0, "err") as err:
            out.write(b"out\n")
            err.write(b"err\n")
        assert follower.drain(5)
        assert console.viewer.look() == b"[0] out\n"
        assert viewer.look() == b"[0] err\n"
        assert follower.tails[0, "err"].lines() == ["err"]


def test_progress_shows_its_latest_state(console, file):
    with following(console, partial_after=0.01, progress_every=0.05) as follower:
        with Rank(follower, 0, file=file) as rank:
            for i in range(100):
                rank.write(b"\r%d%%" % i)
            console.viewer.until(b"[0] 99%\n")
            rank.write(b"\r100%")
            console.viewer.until(b"[0] 100%\n")
            rank.write(b"\nnext\n")
            console.viewer.until(b"next\n")
        assert follower.drain(5)
        lines = console.viewer.look().decode().splitlines()
        assert lines[-3:] == ["[0] 99%", "[0] 100%", "[0] next"]
        assert follower.tails[0, "out"].lines() == ["100%", "next"]


def test_progress_is_shown_at_most_once_per_interval(console):
    with following(console, partial_after=0.01, progress_every=NEVER) as follower:
        with Rank(follower, 0) as rank:
            rank.write(b"\r0%")
            console.viewer.until(b"[0] 0%\n")
            for i in range(1, 100):
                rank.write(b"\r%d%%" % i)
            until(lambda: follower.tails[0, "out"].lines() == ["99%"])
        assert follower.drain(5)
        assert console.viewer.look() == b"[0] 0%\n[0] 99%\n"


def test_text_that_becomes_progress(console):
    with following(console, partial_after=0.01, progress_every=0.01) as follower:
        with Rank(follower, 0) as rank:
            rank.write(b"10%")
            console.viewer.until(b"10%")
            rank.write(b"\r20%")
            console.viewer.until(b"20%\n")
            rank.write(b" done\n")
        assert follower.drain(5)
        seen = console.viewer.look()
        assert seen.startswith(b"[0] 10%\n[0] 20%\n")
        assert seen.endswith(b"[0] 20% done\n")


def test_prefixes_have_colours_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with terminal() as (console, viewer), following(console) as follower:
        with Rank(follower, 0, colour=0) as a, Rank(follower, 7, colour=7) as b:
            a.write(b"one\n\x1b[31mred\n")
            viewer.until(b"red")
            b.write(b"two\n")
            viewer.until(b"two\n")
        assert viewer.seen == (
            b"\x1b[36m[0] \x1b[0mone\n\x1b[36m[0] \x1b[0m\x1b[31mred\x1b[0m\n"
            b"\x1b[33m[7] \x1b[0mtwo\n"
        )


def even(line):
    return int(line.rpartition(b" ")[2]) % 2 == 0


def test_of_a_source_that_keeps_some_lines_only_whole_lines_are_judged(console, file):
    """`line 1` and `2`: as a part it would be thrown away, as a whole it is kept."""
    with following(console, partial_after=0) as follower:
        with Rank(follower, 0, file=file, keep=even) as a, Rank(follower, 1) as b:
            a.write(b"line 1\nline 1")
            b.write(b"part")
            console.viewer.until(b"part")
            a.write(b"2\n")
            console.viewer.until(b"line 12\n")
            a.write(b"line 4")
            assert follower.drain(5)
        assert console.viewer.look() == b"[1] part\n[0] line 12\n[0] line 4\n"
