import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seams.output import harmless, harmless_text, shown, unfinished


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain\ttext\n", b"plain\ttext\n"),
        (b"\x1b[1;31mred\x1b[0m\n", b"\x1b[1;31mred\x1b[0m\n"),
        (b"\x1b[38:2::255:0:0mred\x1b[m", b"\x1b[38:2::255:0:0mred\x1b[m"),
        (b"\x1b]0;title\x07", b"^[]0;title^G"),
        (b"\x1b[2J\x1b[10;5H", b"^[[2J^[[10;5H"),
        (b"\x1b[?25l\x1bc\x1b", b"^[[?25l^[c^["),
        (b"\x1b[>4;2m", b"^[[>4;2m"),
        (b"\x00\x08\x0b\x0c\r\x1f\x7f", b"^@^H^K^L^M^_^?"),
        (b"\xc2\x9b2J \xc2\x80", b"<9b>2J <80>"),
        ("é ü 日本 🎉 \xa0\xbf".encode(), "é ü 日本 🎉 \xa0\xbf".encode()),
        (b"\xff\xfe \x9b latin-1 \xe9", b"\xff\xfe \x9b latin-1 \xe9"),
        (
            "nimda\u202e \u2066a\u2069 \u200f\u061c".encode(),
            b"nimda<U+202E> <U+2066>a<U+2069> <U+200F><U+061C>",
        ),
        ("“quoted” … \u2028 \u2070 ؛".encode(), "“quoted” … \u2028 \u2070 ؛".encode()),
    ],
)
def test_what_is_shown(raw, shown):
    assert harmless(raw) == shown


BIDIRECTIONAL = {chr(c) for c in range(0x110000)
                 if unicodedata.bidirectional(chr(c)) in
                 ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")}  # fmt: skip


@pytest.mark.parametrize("character", sorted({*BIDIRECTIONAL, "\u200e", "\u200f", "\u061c"}))
def test_every_character_that_turns_the_direction_of_writing_round(character):
    said = f"<U+{ord(character):04X}>"
    assert harmless_text(f"a{character}b") == f"a{said}b"
    assert shown(f"a{character}b") == f"a{said}b"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain é 日本", "plain é 日本"),
        ("two\nlines\tand\r", "two^Jlines^Iand^M"),
        ("\x1b[31mred\x1b[0m", "^[[31mred^[[0m"),
        ("\x9b2J\x7f\u2028", "<9b>2J^?<U+2028>"),
        ("hard\xa0space", "hard\xa0space"),
    ],
)
def test_a_text_that_stays_within_its_line(text, line):
    assert shown(text) == line


@given(st.binary())
def test_nothing_harmful_is_left_and_lines_stay(raw):
    shown = harmless(raw)
    assert harmless(shown) == shown
    assert shown.count(b"\n") == raw.count(b"\n")
    assert not set(shown) & (set(range(0x20)) | {0x7F}) - {9, 10, 27}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (b"done", 0),
        (b"caf\xc3", 1),
        ("日".encode()[:2], 2),
        ("🎉".encode()[:3], 3),
        ("🎉".encode(), 0),
        (b"red \x1b", 1),
        (b"red \x1b[38;5", 6),
        (b"red \x1b[31m", 0),
        (b"\xff\xff", 0),
    ],
)
def test_what_is_unfinished(text, count):
    assert unfinished(text) == count


def test_a_program_that_prints_what_is_no_text_does_not_hold_up_the_console():
    """A call for each character would take half a second for a megabyte."""
    raw = b"".join(bytes(range(32)) + "\u202e\x9b".encode() for _ in range(1000))
    calls = []
    sys.setprofile(lambda *_: calls.append(1))
    try:
        harmless(raw)
    finally:
        sys.setprofile(None)
    assert len(calls) < 1000
