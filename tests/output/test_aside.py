"""What is shown beside the ranks' output: the live view's lines, and lines of our own."""

import os
import threading

import pytest

from seams.output import Console, Follower, Source, Tail, end_of, last_line


@pytest.fixture
def pipe():
    """Give a console that leads to a pipe, and the end that is read."""
    read_end, write_end = os.pipe()
    stream = os.fdopen(write_end, "w")
    console = Console(stream)
    yield console, read_end
    console.close()
    stream.close()
    os.close(read_end)


def read_until(fd, end):
    seen = bytearray()
    while not seen.endswith(end):
        seen += os.read(fd, 1 << 20)
    return bytes(seen)


def test_aside_leaves_the_line_as_it_is(pipe):
    console, read_end = pipe
    console.write(b"half")
    console.aside(b"frame\n")
    assert console.midline
    assert not console.owes
    console.write(b" and half\n")
    assert not console.midline
    console.aside(b"frame")
    assert not console.midline
    assert os.read(read_end, 100) == b"halfframe\n and half\nframe"


def test_what_is_not_taken_comes_before_what_is_written_next(pipe):
    console, read_end = pipe
    frame = bytes(range(256)) * 4096  # more than a pipe holds
    console.aside(frame)
    assert console.owes
    assert not console.write(b"too early\n", timeout=0)
    assert not console.midline
    seen = []
    reader = threading.Thread(target=lambda: seen.append(read_until(read_end, b"end\n")))
    reader.start()
    assert console.write(b"end\n", timeout=20)
    reader.join()
    assert seen == [frame + b"end\n"]
    assert not console.owes


def test_lines_of_our_own_stand_between_lines(pipe):
    console, read_end = pipe
    follower = Follower(console, console)
    theirs, ours = os.pipe()
    follower.add_pipe(theirs, Source(0, "out", b"[0] "))
    os.write(ours, b"whole\nhalf ")
    seen = read_until(read_end, b"half ")
    follower.say(b"procession: a word\n")
    seen += read_until(read_end, b"word\n")
    os.write(ours, b"a line\n")
    seen += read_until(read_end, b"a line\n")
    os.close(ours)
    assert follower.drain(5)
    follower.say(b"procession: the last word\n")
    seen += read_until(read_end, b"last word\n")
    assert seen.decode().splitlines() == [
        "[0] whole", "[0] half ", "procession: a word", "[0] a line", "procession: the last word",
    ]  # fmt: skip
    follower.close()


@pytest.mark.parametrize(
    ("text", "line"),
    [(b"", b""), (b"\n \n", b""), (b"a\nb\n\n", b"b"), (b"a\nb", b"b"), (b"1\r2\r", b"2"),
     (b"x" * 2000, b"x" * 1000)],
)  # fmt: skip
def test_last_line(text, line):
    assert last_line(text) == line
    tail = Tail()
    tail.feed(text)
    assert tail.last() == line


def test_the_end_of_a_file(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"line\n" * 10_000 + b"the last\n")
    assert end_of(str(path), 10)[1] == b"\nthe last\n"
    assert end_of(str(tmp_path / "none"), 10) == (0.0, b"")
