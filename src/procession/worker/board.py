"""The board: a page of shared memory for each rank, and one for the group, without any waiting.

Theory of operation. The launcher owns a memory file and names it in each rank's environment:
`PROCESSION_BOARD=<path>:<rank>`, with a path below /proc that lasts as long as the launcher. Page 0
is the group's: the launcher writes there that the group is being ended, or that all ranks have
returned, and ranks read it. Page 1 + rank is the rank's: the rank writes its progress there
(`beat`), and the launcher reads it. No process is woken, no lock is shared and no system call is
made: a beat costs next to nothing, and a rank that is stopped, or dies while it writes, blocks
nobody.

A rank's page holds how many beats there were, when the last one was, and what it said. A
page begins with a counter, which is odd while the page is being written (a sequence lock): a
reader compares it before and after. A page holds data of a rank, so a reader must not trust it.
The counter is copied as a whole, since `struct` writes zeros first, then byte after byte: a reader
would see an even counter, 0, at the beginning and again at the end of a write. The rest relies on
stores that other processors see in their order, as x86 promises; elsewhere a reader may, rarely,
see a mixture of two beats.

Rejected: a pipe (it fills, and wakes its reader 10,000 times a second); an inherited descriptor (if
a rank starts the program by `subprocess`, that closes it); a file (it depends on a disk).
"""

from __future__ import annotations

import os
import struct
import time
from functools import cache

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every rank would pay
if TYPE_CHECKING:
    from mmap import mmap
    from typing import Any

VARIABLE = "PROCESSION_BOARD"
PAGE = 4096  # bytes
MOST_FIELDS = 32  # beside step and total
MOST_TEXT = 200  # characters
COUNTER = 8  # bytes; all that follows it:
# when the stop was requested, when SIGKILL comes, when the stop signal comes, all in ns of the
# monotonic clock, 0 for none; the signal by which the stop was requested, 0 for none.
GROUP = struct.Struct("<qqqI")
RETURNED = COUNTER + GROUP.size  # a byte behind it: 1 when all ranks have returned
# how many beats; when the last one was (ns); the length of the words that follow, with zeros
# between them: step, total (empty: none), then the name and value of each field, "=" and a number
# or ":" and a text
RANK = struct.Struct("<QqH")
COUNTS = 1 << 64  # after its largest value a count goes on at 0: any process may write that
SAID = COUNTER + RANK.size  # where the words begin


def read(memory: mmap, at: int, size: int) -> bytes | None:
    """Give what follows the counter, size bytes of it; None if it was never seen at rest."""
    for _ in range(100):
        before = memory[at : at + COUNTER]
        page = memory[at + COUNTER : at + COUNTER + size]
        if not before[0] & 1 and memory[at : at + COUNTER] == before:
            return page
    return None


class Page:
    """A rank's own page, in the rank. `beat` writes it."""

    def __init__(self, memory: mmap, rank: int) -> None:
        self.memory = memory
        self._at = (1 + rank) * PAGE
        self._writing = False

    def beat(self, step: float | None, total: float | None, fields: dict[str, Any]) -> None:
        """Write progress; see `procession.beat`."""
        if self._writing:
            return  # in another thread, or in the code that a signal interrupted: skip this one
        self._writing = True
        try:
            self._write(step, total, fields)
        finally:
            self._writing = False

    def _write(self, step: float | None, total: float | None, fields: dict[str, Any]) -> None:
        parts = ["" if n is None else repr(float(n)) for n in (step, total)]
        for name in list(fields)[:MOST_FIELDS]:
            parts += name, _plain(fields[name])
        text = "\0".join(parts).encode(errors="replace")
        if len(text) > PAGE - SAID:
            text = "\0".join(parts[:2]).encode()
        memory, at = self.memory, self._at
        (beats, _, _) = RANK.unpack_from(memory, at + COUNTER)
        counter = int.from_bytes(memory[at : at + COUNTER], "little")
        counter |= 1  # it is odd already after a write that did not finish
        memory[at : at + COUNTER] = counter.to_bytes(COUNTER, "little")
        memory[at + SAID : at + SAID + len(text)] = text
        RANK.pack_into(memory, at + COUNTER, (beats + 1) % COUNTS, time.monotonic_ns(), len(text))
        memory[at : at + COUNTER] = ((counter + 1) % COUNTS).to_bytes(COUNTER, "little")


def _plain(value: Any) -> str:
    """Give what stands for a value on the page: a number, or the beginning of a text."""
    try:
        if not isinstance(value, str):
            return f"={float(value)!r}"
    except (TypeError, ValueError):
        pass
    return ":" + str(value)[:MOST_TEXT].replace("\0", " ")


class Stopping:
    """Whether the group is being ended; true if it is.

    seconds_left: until this rank is killed, at the latest; None if the group is not being ended.
    seconds_to_signal: until the stop signal comes, 0 when it was sent; None likewise.
    signal: the number of the signal that the launcher got, None if the reason is another one.
    """

    def __init__(self, asked: int = 0, ends: int = 0, signalled: int = 0, number: int = 0) -> None:
        now = time.monotonic_ns()
        self._asked = asked != 0
        self.seconds_left = max(0.0, (ends - now) / 1e9) if asked else None
        self.seconds_to_signal = max(0.0, (signalled - now) / 1e9) if asked else None
        self.signal = number or None

    def __bool__(self) -> bool:
        return self._asked

    def __repr__(self) -> str:
        if not self._asked:
            return "<not stopping>"
        return f"<stopping: {self.seconds_left:.1f} s left>"


def read_stopping(memory: mmap) -> Stopping:
    """Read the group's page."""
    page = read(memory, 0, GROUP.size)
    return Stopping() if page is None else Stopping(*GROUP.unpack(page))


def renew() -> None:
    """Forget the board of the parent process, after a fork."""
    _open.cache_clear()


@cache
def _open() -> Page | None:
    """Find this rank's board by its environment; None outside of a group."""
    path, _, rank = os.environ.get(VARIABLE, "").rpartition(":")
    if not path or not rank.isdecimal():
        return None
    import mmap

    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            # If the launcher is gone, another process may have this pid now.
            if "memfd:procession-board" not in os.readlink(f"/proc/self/fd/{fd}"):
                return None
            memory = mmap.mmap(fd, 0)
        finally:
            os.close(fd)
    except (OSError, ValueError):
        return None
    return Page(memory, int(rank)) if len(memory) >= (2 + int(rank)) * PAGE else None


def beat(step: float | None = None, total: float | None = None, **fields: Any) -> None:
    """Report progress of this rank: that it is alive, and how far it is.

    `procession run --live` and `procession ps` show it. With a hang time-out, a rank without a beat
    for that long counts as hung. Makes no system call; in a process that is no rank it does
    nothing. Child processes of a rank may call it, too.

    step: where it is. total: where it will end. fields: up to 32 more, numbers or short texts, by
    name: `beat(step=i, total=n, loss=loss)`; a value with `__float__` is taken as a number.
    """
    page = _open()
    if page is not None:
        page.beat(step, total, fields)


def stopping() -> Stopping:
    """Tell whether this rank's group is being ended; true if it is, with the seconds left.

    A rank may ask as often as it likes (no system call), save its work and return. In a
    process that is no rank it is always false.
    """
    page = _open()
    return Stopping() if page is None else read_stopping(page.memory)


def all_returned() -> bool:
    """Tell whether no rank is to be waited for: all have returned, or the group is being ended.

    So it is where there is no group.
    """
    page = _open()
    return page is None or page.memory[RETURNED] != 0 or bool(read_stopping(page.memory))
