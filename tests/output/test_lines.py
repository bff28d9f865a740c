import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seams.output import LineSplitter, Tail, last_lines

PIECES = st.sampled_from([b"a", b"bc", b"\r", b"\n", b"\r\n", b"\r\r", b"\xff", "é".encode()])


def reference(text):
    *lines, rest = text.split(b"\n")

    def latest(line):
        return line.rstrip(b"\r").rpartition(b"\r")[2]

    return b"".join(latest(line) + b"\n" for line in lines), latest(rest)


def chunks(data, text):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(st.lists(PIECES, max_size=40).map(b"".join), st.data())
def test_any_cutting_gives_the_same_lines(text, data):
    splitter = LineSplitter()
    lines = b"".join(splitter.feed(block) for block in chunks(data, text))
    assert (lines, splitter.pending) == reference(text)
    assert lines + splitter.end() == reference(text)[0] + (
        reference(text)[1] + b"\n" if reference(text)[1] else b""
    )
    assert splitter.pending == b""


@given(st.lists(PIECES, max_size=40).map(b"".join), st.data())
def test_what_was_taken_is_named_when_its_line_comes(text, data):
    """Showing what take() gives, and then each line without what was taken, shows all once."""
    splitter = LineSplitter()
    shown, partial = [], b""
    for block in chunks(data, text):
        if lines := splitter.feed(block):
            first, *others = lines[:-1].split(b"\n")
            assert splitter.continued in (0, len(partial))
            if splitter.continued:
                assert first[: splitter.continued] == partial
            shown += [first, *others]
            partial = b""
        if splitter.taken < len(partial):  # a \r has made it out of date
            partial = b""
        if data.draw(st.booleans()):
            partial += splitter.take_part()
            assert splitter.pending.startswith(partial)
    assert b"".join(line + b"\n" for line in shown) == reference(text)[0]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"10%\r20%\r30%\n", b"30%\n"),
        (b"\r10%\r20%\r\n", b"20%\n"),
        (b"dos\r\nlines\r\n", b"dos\nlines\n"),
        (b"\r\n\n\r\r\n", b"\n\n\n"),
    ],
)
def test_returns(text, lines):
    assert LineSplitter().feed(text) == lines
    splitter = LineSplitter()
    assert b"".join(splitter.feed(bytes((c,))) for c in text) == lines


def test_bars_in_bars():
    """The inner one goes down a line, and up again; so the line has not ended."""
    inner = [b"\n", b"\r10%", b"\x1b[A", b"\n", b"\r20%", b"\x1b[A"]
    blocks = [b"\router 0", *inner, b"\router 1", *inner, b"\router 2\n"]
    for written in (blocks, [b"".join(blocks)]):
        splitter = LineSplitter()
        lines = b"".join(splitter.feed(block) for block in written)
        assert lines == b"outer 0\nouter 1\nouter 2\n"


def test_memory_is_bounded():
    splitter = LineSplitter(longest=1 << 20)
    block = b"x" * (64 << 10)
    tracemalloc.start()
    pieces = sum(splitter.feed(block).count(b"\n") for _ in range(320))  # 20 MiB
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pieces in range(18, 21)
    assert peak < 5 << 20


def test_tail_keeps_the_last_lines():
    tail = Tail()
    assert tail.lines() == []
    for i in range(1000):
        tail.feed(b"line %d\n" % i)
    tail.feed(b"a\rb\rhalf \xff")
    assert tail.lines() == [*(f"line {i}" for i in range(981, 1000)), "half \ufffd"]
    tail.end()
    assert tail.lines()[-1] == "half \ufffd"
    assert last_lines(b"one\n\r10%\x1b[A\n\r20%\x1b[A\n") == ["one", "20%"]


def test_tail_keeps_64_kib():
    tail = Tail()
    tail.feed("é".encode() * (1 << 20) + b"\n")
    (line,) = tail.lines()
    assert len(line) in ((32 << 10) - 1, 32 << 10) and set(line) == {"é"}
    for _ in range(100):
        tail.feed(b"x" * 10_000 + b"\n")
    assert sum(map(len, tail.lines())) <= 64 << 10
    assert len(tail.lines()) == 7
