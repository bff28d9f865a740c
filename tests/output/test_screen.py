"""What a user's terminal shows, according to a terminal emulator."""

import pyte
from following import Rank, following, terminal


def shown(data):
    screen = pyte.Screen(60, 12)
    pyte.ByteStream(screen).feed(data)
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    return lines, screen


def run(*written, **times):
    """Give the screen after ranks have written, one after the other."""
    with terminal(raw=False) as (console, viewer), following(console, **times) as follower:
        ranks = [Rank(follower, i, colour=i) for i in range(2)]
        for number, text, wait in written:
            ranks[number].write(text)
            if wait:
                viewer.until(wait)
        for rank in ranks:
            rank.close()
        assert follower.drain(5)
        return shown(viewer.look())


def test_a_rank_cannot_touch_the_terminal():
    lines, screen = run(
        (0, b"before\n", b"before"),
        (0, b"\x1b]0;owned\x07title\n", b"title"),
        (0, b"\x1b[2J\x1b[H\x1b[5Acursor\n", b"cursor"),
        (1, b"\x07bell \xc2\x9b2J c1 \x9d0;raw\n", b"bell"),
        (1, b"\x1bc\x1b(0\x0e\x1b[?1049h\x1b[?25lend\n", b"end"),
    )
    assert lines == [
        "[0] before",
        "[0] ^[]0;owned^Gtitle",
        "[0] ^[[2J^[[H^[[5Acursor",
        "[1] ^Gbell <9b>2J c1 \ufffd0;raw",
        "[1] ^[c^[(0^N^[[?1049h^[[?25lend",
    ]
    assert screen.title == ""
    assert not screen.cursor.hidden


def test_colours_stay_in_their_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines, screen = run((0, b"\x1b[31mred\n", b"red"), (1, b"plain\n", b"plain"))
    assert lines == ["[0] red", "[1] plain"]
    assert [screen.buffer[0][x].fg for x in (0, 4)] == ["cyan", "red"]
    assert [screen.buffer[1][x].fg for x in (0, 4)] == ["brown", "default"]


def test_progress_bars_of_two_ranks(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    lines, _ = run(
        (0, b"\r 10%|#   |", b"10%"),
        (1, b"\r 20%|##  |", b"20%"),
        (0, b"\r100%|####|\n", b"100%"),
        (1, b"\r 60%|### |", None),
        (1, b"\r100%|####|\n", b"[1] 100%"),
        partial_after=0.01,
        progress_every=1000.0,
    )
    assert lines == ["[0]  10%|#   |", "[1]  20%|##  |", "[0] 100%|####|", "[1] 100%|####|"]


def test_prompts_of_two_ranks():
    lines, _ = run(
        (0, b"name? ", b"name? "),
        (0, b"Ada\n", b"Ada"),
        (0, b"age? ", b"age? "),
        (1, b"tick\n", b"tick"),
        (0, b"36\n", b"36"),
        partial_after=0.01,
    )
    assert lines == ["[0] name? Ada", "[0] age?", "[1] tick", "[0] 36"]
