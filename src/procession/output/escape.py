"""Text of ranks, files and other processes made harmless for a terminal.

A rank can print anything: a core dump, another program's screen, the title sequence of a shell
prompt. On the console of the launcher, which all ranks share, that would ring, clear, move the
cursor into other ranks' lines or make the terminal send keys. Characters that turn the direction
of writing round make a text look like another one. Names of files and programs, notes of `beat`
and the like can hold the same. Colour is the one thing that is wanted and does no harm.

Everything that is shown passes `harmless` on its way out (`screen` for output of ranks, `cli.say`
for what commands say); `shown` is for a text that is to stay within its line.

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

# What turns the direction of writing round: U+061C, U+200E and F, U+202A to E, U+2066 to 9.
_TURNS = tuple(
    chr(c).encode() for c in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
)
_TURNS_BEGIN = (b"\xd8\x9c", b"\xe2\x80", b"\xe2\x81")

_ESCAPE = rb"\x1b(?!\[[0-9;:]*m)"  # one that does not begin a colour sequence
_C1 = rb"\xc2[\x80-\x9f]"
_HARMFUL = (
    _ESCAPE + rb"|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]"
    rb"|" + _C1 + rb"|\xd8\x9c|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]"
)

# In a text that is to stay within its line.
_NOT_IN_A_LINE = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"

_COLOUR = rb"\x1b\[[0-9;:]*m"

# From the first colour sequence of a line to the line's end.
_COLOURED_LINE = rb"(\x1b\[[^\n]*)\n"

# An escape sequence or a character of which only the beginning is there.
_UNFINISHED = (
    rb"(?:\x1b(?:\[[0-9;:]*)?|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)
_LONGEST_UNFINISHED = 40

RESET = b"\x1b[0m"


def _named(character: str) -> str:
    code = ord(character)
    if code >= 0xA0:
        return f"<U+{code:04X}>"
    return f"<{code:02x}>" if code >= 0x80 else f"^{chr(code ^ 0x40)}"


def _visible(found: re.Match[bytes]) -> bytes:
    return _named(found.group().decode()).encode()


# What has one name wherever it stands.
_NAMES = tuple(
    (raw, _named(raw.decode()).encode())
    for raw in (*_SUSPECTS, *_TURNS)
    if raw not in (b"\x1b", b"\xc2")
)


def harmless(block: bytes) -> bytes:
    r"""Give `block` with its control characters and escape sequences made visible.

    Tab, newline and colour sequences (`ESC [ digits ; : m`) stay. An ESC of any other sequence
    becomes `^[`, other C0 controls become `^G` and the like, DEL `^?`, C1 controls in UTF-8
    (`\xc2\x9b`) their number, `<9b>`, and what turns the direction of writing round `<U+202E>` and
    the like. Bytes that are not UTF-8 pass unchanged. A block that has none of these is given back
    as it is, without a copy.
    """
    # 30 searches for one byte each are ten times as fast as one for a class of bytes, which is
    # three times as fast as one for the whole pattern.
    for suspect in _SUSPECTS:
        if suspect in block:
            break
    else:
        if block.isascii() or not any(begin in block for begin in _TURNS_BEGIN):
            return block
        if not any(turn in block for turn in _TURNS):
            return block
    if not re.search(_HARMFUL, block):
        return block
    # A call for each of them would take half a second for a megabyte of NULs.
    block = re.sub(_ESCAPE, b"^[", block)
    for raw, name in _NAMES:
        block = block.replace(raw, name)
    return re.sub(_C1, _visible, block)


def harmless_text(text: str) -> str:
    """Give a text of any number of lines as `harmless` would.

    Bytes of a file's name that are not UTF-8 are shown as Python shows them.
    """
    return harmless(text.encode(errors="backslashreplace")).decode()


def shown(text: str) -> str:
    """Give a text so that it stays within its line, without colours; all else as `harmless`."""
    if text.isprintable():  # none of these is
        return text
    return re.sub(_NOT_IN_A_LINE, lambda found: _named(found.group()), text)


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
