"""Bytes from a rank made harmless for a console.

A rank can print anything: a core dump, another program's screen, the title sequence of a shell
prompt. On the console of the launcher, which all ranks share, that would ring, clear, move the
cursor into other ranks' lines or make the terminal send keys. Colour is the one thing that is
wanted and does no harm.

Rejected: dropping the sequences (what a rank printed would look like something else), and a
parser of whole sequences (OSC and DCS strings have no bounded length; once their introducer is
visible text the rest of them is visible text too).
"""

from __future__ import annotations

import re

# The expressions are compiled when they are first used: most programs' output needs none.

# Everything below the space but tab and newline, and DEL.
# And \xc2, which only ever begins a character in UTF-8: every C1 control, and some letters.
_SUSPECTS = tuple(bytes((c,)) for c in (*range(0x20), 0x7F, 0xC2) if c not in b"\t\n")

_HARMFUL = (
    rb"\x1b(?!\[[0-9;:]*m)"  # an escape that does not begin a colour sequence
    rb"|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]"
    rb"|\xc2[\x80-\x9f]"
)

_COLOUR = rb"\x1b\[[0-9;:]*m"

# From the first colour sequence of a line to the line's end.
_COLOURED_LINE = rb"(\x1b\[[^\n]*)\n"

# An escape sequence or a character of which only the beginning is there.
_UNFINISHED = (
    rb"(?:\x1b(?:\[[0-9;:]*)?|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)
_LONGEST_UNFINISHED = 40

RESET = b"\x1b[0m"


def _visible(found: re.Match[bytes]) -> bytes:
    text = found.group()
    if len(text) == 2:
        return b"<%02x>" % text[1]
    return b"^" + bytes((text[0] ^ 0x40,))


def harmless(block: bytes) -> bytes:
    r"""Give `block` with its control characters and escape sequences made visible.

    Tab, newline and colour sequences (`ESC [ digits ; : m`) stay. An ESC of any other sequence
    becomes `^[`, other C0 controls become `^G` and the like, DEL `^?`, and C1 controls in UTF-8
    (`\xc2\x9b`) their number, `<9b>`. Bytes that are not UTF-8 pass unchanged. A block that has
    none of these is given back as it is, without a copy.
    """
    # 30 searches for one byte each are ten times as fast as one for a class of bytes, which is
    # three times as fast as one for the whole pattern.
    for suspect in _SUSPECTS:
        if suspect in block:
            break
    else:
        return block
    if not re.search(_HARMFUL, block):
        return block
    return re.sub(_HARMFUL, _visible, block)


def end_colours(lines: bytes) -> bytes:
    """Give whole, harmless lines so that no line's colours reach beyond its end."""
    if b"\x1b" not in lines:
        return lines
    return re.sub(_COLOURED_LINE, rb"\1" + RESET + b"\n", lines)


def uncoloured(block: bytes) -> bytes:
    """Give a harmless block without its colours."""
    return re.sub(_COLOUR, b"", block) if b"\x1b" in block else block


def unfinished(text: bytes) -> int:
    """Count the bytes at the end of `text` that begin a character or an escape sequence.

    They should be shown together with what follows; at most 40 bytes are looked at.
    """
    found = re.search(_UNFINISHED, text[-_LONGEST_UNFINISHED:])
    return len(found.group()) if found else 0


__all__ = ["RESET", "end_colours", "harmless", "uncoloured", "unfinished"]
