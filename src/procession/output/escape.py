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

# What turns the direction of writing round: U+061C, U+200E and F, U+202A to E, U+2066 to 9.
_TURNS = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
# What is shown in place of each character that does harm.
_NAMES = {
    **{code: f"^{chr(code ^ 0x40)}" for code in (*range(0x20), 0x7F)},
    **{code: f"<{code:02x}>" for code in range(0x80, 0xA0)},
    **{code: f"<U+{code:04X}>" for code in _TURNS},
}
_IN_LINES = {code: name for code, name in _NAMES.items() if chr(code) not in "\t\n\x1b"}
_WITHIN_A_LINE = {**_NAMES, 0x2028: "<U+2028>", 0x2029: "<U+2029>"}
# Bytes with which such a character begins in UTF-8; many others begin so, too.
_SUSPECTS = bytes((*range(9), *range(11, 0x20), 0x7F, 0xC2, 0xD8, 0xE2))

# The expressions are compiled when they are first used: most programs' output needs none.
_ESCAPE = rb"\x1b(?!\[[0-9;:]*m)"  # one that does not begin a colour sequence
_COLOUR = rb"\x1b\[[0-9;:]*m"

# From the first colour sequence of a line to the line's end.
_COLOURED_LINE = rb"(\x1b\[[^\n]*)\n"

# An escape sequence or a character of which only the beginning is there.
_UNFINISHED = (
    rb"(?:\x1b(?:\[[0-9;:]*)?|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)
_LONGEST_UNFINISHED = 40

RESET = b"\x1b[0m"


def harmless(block: bytes) -> bytes:
    r"""Give `block` with its control characters and escape sequences made visible.

    Tab, newline and colour sequences (`ESC [ digits ; : m`) stay. An ESC of any other sequence
    becomes `^[`, other C0 controls become `^G` and the like, DEL `^?`, C1 controls in UTF-8
    (`\xc2\x9b`) their number, `<9b>`, and what turns the direction of writing round `<U+202E>` and
    the like. Bytes that are not UTF-8 pass unchanged.
    """
    if len(block.translate(None, _SUSPECTS)) == len(block):
        return block
    text = re.sub(_ESCAPE, b"^[", block).decode(errors="surrogateescape")
    return text.translate(_IN_LINES).encode(errors="surrogateescape")


def harmless_text(text: str) -> str:
    """Give a text of any number of lines as `harmless` would.

    Bytes of a file's name that are not UTF-8 are shown as Python shows them.
    """
    return harmless(text.encode(errors="backslashreplace")).decode()


def shown(text: str) -> str:
    """Give a text so that it stays within its line, without colours; all else as `harmless`."""
    return text.translate(_WITHIN_A_LINE)


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
