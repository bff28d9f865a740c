r"""The text of ranks, files and other processes: cut into whole lines, and harmless to show.

**Lines** (`LineSplitter`). A block is split once, at its last newline. What stands before it is
handed on as one piece, however many lines it has: the cost of a line is only what `bytes.replace`
takes to put a prefix before it. What stands behind it, the *rest*, waits for its end in one growing
buffer, so that a line of any length costs time in proportion to its length. A `\r` inside a line
says that what stands before it is out of date (a progress bar). Only the latest state is kept: the
text after the last `\r`. A `\r` at the end of a line is not looked at: `\r\n` is a line end like
`\n`. Where `\r` occurs, each line costs two regular expressions of linear time; where it does
not, one search for the byte. The last lines are kept for reports (`Tail`).

**Harmless.** A rank can print anything: a core dump, another program's screen, the title sequence
of a shell prompt. On the console of the launcher, which all ranks share, that would ring, clear,
move the cursor into other ranks' lines or make the terminal send keys. Characters that turn the
direction of writing round make a text look like another one. Names of files and programs, notes of
`beat` and the like can hold the same. Colour is the one thing that is wanted and does no harm. All
that is shown passes `harmless` on its way out (`screen` for output of ranks, `cli.say` for what
commands say); `shown` is for a text that is to stay within its line.

Rejected: `splitlines()` and a loop over lines (1 GB of 80-byte lines takes more than 4 seconds
before anything is shown), a list of pieces for the rest (a program that writes single bytes would
make it sixty times as large as its text), dropping escape sequences (what a rank printed would look
like something else), and a parser of whole sequences (OSC and DCS strings have no bounded length;
once their introducer is visible text the rest of them is visible text too).
"""

from __future__ import annotations

import re
import threading
import time

LINES = 20  # last ones
CRASH, DUMP_LINES = "Fatal Python error: ", 200  # how a dump begins; at most
BYTES = 64 << 10
LINE = 1000  # bytes of a last line
LONGEST_LINE = 8 << 20  # bytes; while one is made harmless and shown, it is held some five times

# Each expression can only begin at one place of a run or line: no input makes it quadratic.
UP = b"\x1b[A"
_RETURNS_AT_END = rb"(?<!\r)\r+\n"
_OUTDATED = rb"(?m)^[^\n]*\r"


class LineSplitter:
    r"""What one source wrote, as whole lines.

    continued: how many bytes at the beginning of the last result of `feed` or `end` were handed
        out before by `take`. (0, too, if they were but a `\r` has made them out of date.)
    progress: the incomplete line has had a `\r`.
    taken: how many bytes of the incomplete line `take` has handed out.

    A line longer than `longest` bytes is handed out in pieces, as several lines; no more than
    `longest` bytes and one block are ever held.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.continued = 0
        self.progress = False
        self._longest = longest
        self._rest = bytearray()
        self._return = False  # a \r follows the rest: what comes next replaces it
        self._up = False  # the rest ended by going up a line
        self.taken = 0

    def feed(self, block: bytes) -> bytes:
        r"""Add what was read; give the lines that are complete, each with its `\n`."""
        self.continued = 0
        if self._up or (b"\x1b" in block and UP in block):  # the first is found much faster
            block = self._without_ups(block)
        if b"\r" in block:
            # Programs with \r\n everywhere are common; this leaves them the cheap way.
            block = block.replace(b"\r\n", b"\n")
        returns = self._return or b"\r" in block
        cut = block.rfind(b"\n") + 1
        lines = block[:cut]
        if lines:
            if self._rest or self._return:
                lines = bytes(self._rest) + (b"\r" if self._return else b"") + lines
            outdated = False
            if returns:
                head = block[: block.find(b"\n")].rstrip(b"\r")
                outdated = b"\r" in head or (self._return and bool(head))
                lines = re.sub(_OUTDATED, b"", re.sub(_RETURNS_AT_END, b"\n", lines))
            self._begin_line(lines_continue=0 if outdated else self.taken)
        self._add_to_rest(block[cut:])
        if not cut and len(self._rest) > self._longest:
            return self.end()
        return lines

    def _without_ups(self, block: bytes) -> bytes:
        r"""Write `\r` where a program goes up a line and down again, as bars below others do."""
        if self._up and block.startswith(b"\n"):
            block = b"\r" + block[1:]
        self._up = block.endswith(UP)
        return block.removesuffix(UP).replace(UP + b"\n", b"\r")

    def _add_to_rest(self, text: bytes) -> None:
        if not text:
            return
        body = text.rstrip(b"\r")
        if body:
            _, outdates, latest = body.rpartition(b"\r")
            if self._return or outdates:
                self._rest.clear()
                self.taken = 0
                self.progress = True
            self._rest += latest
            self._return = False
        if len(body) < len(text):
            self._return = self.progress = True

    def _begin_line(self, lines_continue: int) -> None:
        self.continued = lines_continue
        self.progress = self._return = False
        self.taken = 0
        self._rest.clear()

    @property
    def pending(self) -> bytes:
        """The incomplete line in its latest state."""
        return bytes(self._rest)

    @property
    def untaken(self) -> bool:
        """Whether the incomplete line has bytes that `take` has not handed out."""
        return self.taken < len(self._rest)

    def take_part(self) -> bytes:
        """Hand out what is there of the incomplete line and was not handed out before.

        The beginning of a character or escape sequence at its end stays for the next time.
        """
        text = bytes(memoryview(self._rest)[self.taken :])
        text = text[: len(text) - unfinished(text)]
        self.taken += len(text)
        return text

    def take_all(self) -> bytes:
        """Hand out the whole incomplete line in its latest state, as often as it is asked for."""
        self.taken = len(self._rest)
        return bytes(self._rest)

    def end(self) -> bytes:
        r"""Hand out the incomplete line as if its `\n` had come; nothing if there is none."""
        lines = bytes(self._rest) + b"\n" if self._rest else b""
        self._begin_line(lines_continue=self.taken)
        return lines


class Tail:
    """Splits what one source wrote into lines, and keeps the last of them.

    Bytes go in from one thread, which may also use `splitter`, all but its `feed` and `end`;
    `lines` may be called from any.

    fed_at: when there was something last, in nanoseconds of the monotonic clock; 0: never.
    """

    def __init__(self) -> None:
        self.splitter = LineSplitter()
        self.fed_at = 0
        self._lock = threading.Lock()
        self._kept = bytearray()

    def feed(self, block: bytes) -> bytes:
        """Give the lines that a block completes, as `LineSplitter.feed`, and keep their end."""
        with self._lock:
            self.fed_at = time.monotonic_ns()
            return self._keep(self.splitter.feed(block))

    def end(self) -> bytes:
        """Give the incomplete line as a line, as `LineSplitter.end`, and keep it."""
        with self._lock:
            return self._keep(self.splitter.end())

    def _keep(self, lines: bytes) -> bytes:
        self._kept += lines
        # Twice the size before it is cut: then cutting costs a byte moved per byte added.
        if len(self._kept) > 2 * BYTES:
            del self._kept[: -BYTES - 1]
        return lines

    def lines(self) -> list[str]:
        """Give the last lines, as `last_lines`; the incomplete one is the last of them."""
        with self._lock:
            return last_lines(bytes(self._kept) + self.splitter.pending)

    def last(self) -> bytes:
        """Give the last line that is not empty, or its end, as it was written."""
        with self._lock:
            return last_line(bytes(self._kept[-LINE:]) + self.splitter.pending[-LINE:])


def last_line(text: bytes) -> bytes:
    r"""Give the last line of some text that is not empty; of one with `\r`, its latest state."""
    line = text.rstrip().rpartition(b"\n")[2].rpartition(b"\r")[2]
    return line[-LINE:]


def last_lines(text: bytes) -> list[str]:
    r"""Give the last 20 lines of some text, and at most 64 KiB; empty ones at its end are left out.

    Of what `faulthandler` writes of a crash, all.

    Each is in its latest state where it had `\r`, without its newline, else as it was written;
    bytes that are not UTF-8 are replaced. The first may lack its beginning.
    """
    if len(text) > BYTES:
        text = text[-BYTES:].lstrip(bytes(range(0x80, 0xC0)))  # no part of a character
    text = text.replace(UP + b"\n", b"\r").replace(UP, b"").rstrip(b"\r\n")
    if not text:
        return []
    lines = text.decode(errors="replace").split("\n")[-DUMP_LINES:]
    first = max(0, len(lines) - LINES)
    first = next((n for n in range(first) if lines[n].startswith(CRASH)), first)
    return [line.rstrip("\r").rpartition("\r")[2] for line in lines[first:]]


# -- harmless

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
    if not any(code in block for code in _SUSPECTS):  # twice as fast as any single pass
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
