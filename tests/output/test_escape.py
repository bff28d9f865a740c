import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.output.escape import end_colours, harmless, unfinished


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
    ],
)
def test_what_is_shown(raw, shown):
    assert harmless(raw) == shown


def test_a_clean_block_is_not_copied():
    block = "many clean lines, é too\n".encode() * 1000
    assert harmless(block) is block
    coloured = b"\x1b[31mred\x1b[0m\n" * 1000
    assert harmless(coloured) is coloured


@given(st.binary())
def test_nothing_harmful_is_left_and_lines_stay(raw):
    shown = harmless(raw)
    assert harmless(shown) is shown
    assert shown.count(b"\n") == raw.count(b"\n")
    assert not set(shown) & (set(range(0x20)) | {0x7F}) - {9, 10, 27}


def test_colours_end_with_their_line():
    lines = b"plain\n\x1b[31mred\nplain \x1b[1mbold\x1b[32mgreen\n"
    assert end_colours(lines) == (
        b"plain\n\x1b[31mred\x1b[0m\nplain \x1b[1mbold\x1b[32mgreen\x1b[0m\n"
    )


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
