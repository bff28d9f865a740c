"""Consoles that do not read, writers that do not end, files that shrink, many sources."""

import os
import random
import re
import threading

import pytest
from following import Rank, following, piped, terminal, until

from seams.output import Console, follow
from seams.system import eventloop, inotify

NEVER = 1000.0  # seconds: a deadline that is not part of the test


@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_console_that_does_not_read(kind, tmp_path):
    shown = piped if kind == "pipe" else terminal
    with shown() as (console, viewer), following(console) as follower:
        path = tmp_path / "log"
        path.write_bytes(b"line\n" * 1_000_000 + b"last words\n")
        file = Rank(follower, 0, file=path)
        pipe = Rank(follower, 1)
        pipe.write(b"last of the pipe\n")
        file.close()
        pipe.close()
        assert not follower.drain(0.2)
        assert follower.tails[1, "out"].lines() == ["last of the pipe"]
        # The next attempt finds a console that reads again.
        viewer.look()
        with following(console) as another, Rank(another, 0) as rank:
            rank.write(b"next attempt\n")
            viewer.until(b"[0] next attempt\n")


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_a_console_that_reads_late_gets_whole_lines(console, kind, tmp_path):
    """Incomplete lines become due while the console is waited for, and their ends are there."""
    line = b"x" * 100 + b"\n"
    with following(console, partial_after=0.02) as follower:
        ranks = [Rank(follower, i, file=tmp_path / str(i) if kind == "file" else None)
                 for i in range(2)]  # fmt: skip
        writers = [threading.Thread(target=rank.write, args=(line * 5000,)) for rank in ranks]
        for writer in writers:
            writer.start()
        seen = 0
        while seen < 10_000:
            threading.Event().wait(0.05)  # longer than the deadline of a line
            seen = console.viewer.look().count(b"\n")
        for writer in writers:
            writer.join()
        assert follower.drain(5)
        assert set(console.viewer.look().splitlines(keepends=True)) == {
            b"[0] " + line,
            b"[1] " + line,
        }
        for rank in ranks:
            rank.close()


def test_a_note_says_what_was_dropped(tmp_path):
    """A console that stops and is read again just as it is given up."""
    with piped() as (console, viewer), following(console) as follower:
        path = tmp_path / "log"
        path.write_bytes(b"line\n" * 1_000_000)
        write = console.write

        def given_up(data, **how):
            if not (taken := write(data, **how)):
                viewer.look()
            return taken

        console.write = given_up
        Rank(follower, 0, file=path).close()
        assert not follower.drain(0.1)
        notes = [line for line in viewer.look().splitlines() if b"procession" in line]
        assert notes == [follow._NOTE.rstrip()]


def test_replaced_stream_that_hangs():
    """The thread is given up, and ends when it can."""
    release, entered = threading.Event(), threading.Event()

    class Hanging:
        def write(self, text):
            entered.set()
            release.wait()

    console = Console(Hanging())
    with following(console) as follower, Rank(follower, 0) as rank:
        rank.write(b"x\n")
        assert entered.wait(5)
        assert not follower.drain(0.05)
        release.set()


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_a_writer_that_goes_on_for_ever(console, kind, tmp_path):
    stop = threading.Event()
    with following(console) as follower:
        rank = Rank(follower, 0, file=None if kind == "pipe" else tmp_path / "log")
        keep = os.dup(rank.fd)

        def write():
            while not stop.is_set():
                try:
                    os.write(rank.fd, b"still here\n" * 100)
                except OSError:
                    return  # nobody reads it any more

        def look():
            while not stop.is_set():
                console.viewer.look()

        threads = [threading.Thread(target=write), threading.Thread(target=look)]
        for thread in threads:
            thread.start()
        until(lambda: b"still here" in console.viewer.seen)
        assert follower.drain(40)
        stop.set()
        for thread in threads:
            thread.join(5)
        os.close(keep)
        rank.close()


def test_a_pipe_that_stays_open_is_not_waited_for(console):
    with following(console) as follower, Rank(follower, 0) as rank:
        rank.write(b"said\n")
        assert follower.drain(40)
        assert console.viewer.look() == b"[0] said\n"
        with pytest.raises(BrokenPipeError):
            rank.write(b"too late\n")


def test_200_sources(console, tmp_path):
    fds = len(os.listdir("/proc/self/fd"))
    collected = threading.Thread(target=lambda: until(lambda: b"END" in console.viewer.look()))
    collected.start()
    rng = random.Random(1)
    with following(console, partial_after=0.005) as follower:
        ranks = [Rank(follower, i, file=tmp_path / str(i) if i % 2 else None) for i in range(200)]
        for n in range(10):
            for rank in rng.sample(ranks, len(ranks)):
                rank.write(b"begin")
                rank.write(b" %d\n" % n)
        for rank in ranks:
            rank.close()
        assert follower.drain(10)
        console.write(b"END")
        collected.join(10)
        # Lines may have been shown in two pieces, but never in one with another rank's.
        said = dict.fromkeys(range(200), b"")
        for line in console.viewer.seen.splitlines()[:-1]:
            number, text = re.fullmatch(rb"\[(\d+)\] ([a-z0-9 ]*)", line).groups()
            said[int(number)] += text
        assert set(said.values()) == {b"".join(b"begin %d" % n for n in range(10))}
        assert len(os.listdir("/proc/self/fd")) == fds


def test_a_noisy_rank_starves_nobody(console):
    stop = threading.Event()
    with following(console) as follower, Rank(follower, 0) as noisy, Rank(follower, 1) as shy:

        def write():
            while not stop.is_set():
                noisy.write(b"noise\n" * 1000)

        writer = threading.Thread(target=write)
        writer.start()
        console.viewer.until(b"noise")
        shy.write(b"me too\n")
        console.viewer.until(b"[1] me too\n")
        stop.set()
        until(lambda: (console.viewer.look(), not writer.is_alive())[1])
        follower.drain(0)


def test_files_at_the_limits_of_inotify(console, tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(24, "limit")

    monkeypatch.setattr(inotify, "Inotify", refused)
    with following(console) as follower:
        ranks = [Rank(follower, i, file=tmp_path / str(i)) for i in range(3)]
        for rank in ranks:
            rank.write(b"watched\n")
            console.viewer.until(b"[%d] watched\n" % ranks.index(rank))
            rank.close()


def test_overflow_of_notifications(console, tmp_path, monkeypatch):
    monkeypatch.setattr(
        inotify.Inotify, "read", lambda self: os.read(self.fileno(), 1 << 16) and None
    )
    with following(console) as follower, Rank(follower, 0, file=tmp_path / "log") as rank:
        for i in range(3):
            rank.write(b"%d\n" % i)
            console.viewer.until(b"[0] %d\n" % i)


def test_truncated_file(console, tmp_path):
    path = tmp_path / "log"
    with following(console) as follower, Rank(follower, 0, file=path) as rank:
        rank.write(b"long line before\n")
        console.viewer.until(b"before\n")
        os.truncate(path, 0)
        rank.write(b"after\n")
        assert console.viewer.until(b"after\n") == b"[0] long line before\n[0] after\n"


def test_no_wake_ups_while_nothing_happens(console, tmp_path, monkeypatch):
    rounds = []
    turn = eventloop.EventLoop.turn

    def counted(self, most=None):
        rounds.append(1)
        return turn(self, most)

    monkeypatch.setattr(eventloop.EventLoop, "turn", counted)
    with (
        following(console) as follower,
        Rank(follower, 0) as pipe,
        Rank(follower, 1, file=tmp_path / "log") as file,
    ):
        for rank in (pipe, file):
            rank.write(b"something\n")
            console.viewer.until(b"something\n")
            console.viewer.seen = b""
        quiet = threading.Event()
        until(lambda: _unchanged(rounds, quiet))
        before = len(rounds)
        quiet.wait(0.3)
        assert len(rounds) == before


def _unchanged(rounds, quiet):
    before = len(rounds)
    quiet.wait(0.05)
    return len(rounds) == before


def test_interrupted_drain_gives_the_thread_up(tmp_path, monkeypatch):
    with piped() as (console, _), following(console) as follower:
        path = tmp_path / "log"
        path.write_bytes(b"line\n" * 100_000)
        Rank(follower, 0, file=path).close()
        (thread,) = [t for t in threading.enumerate() if t.name == "procession-output"]
        join = thread.join

        def interrupted(timeout=None):
            raise KeyboardInterrupt

        thread.join = interrupted
        with pytest.raises(KeyboardInterrupt):
            follower.drain(100)
        thread.join = join
        join(5)
        assert not thread.is_alive()
