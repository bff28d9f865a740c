"""The launcher's side of the board; see `worker.board` for what it is, and how it is laid out.

The memory file is sealed at its size: a process that maps a file which was shortened is killed by
SIGBUS, and the launcher and all ranks map this one.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time

from procession.system.facilities import named
from procession.system.identity import shown_pid
from procession.values.base import Value
from procession.worker.board import (
    COUNTER,
    DOUBLE,
    GROUP,
    MOST_FIELDS,
    NAMES,
    NUMBERS,
    PAGE,
    RANK,
    VARIABLE,
    begin,
    finish,
    read,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Beat(Value):
    """The progress that a rank reported last.

    beats: how often it did. at: when it last did, in nanoseconds of the monotonic clock. step,
    total: None where it gave none. fields: what else it gave, in its order.
    """

    beats: int
    at: int
    step: float | None
    total: float | None
    fields: dict[str, float | str]


SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Board:
    """The board of one group. Raises OSError where there is no descriptor left."""

    def __init__(self, nproc: int) -> None:
        self._nproc = nproc
        try:
            self._fd = os.memfd_create("procession-board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError as e:
            raise named("memfd_create", e) from None
        try:
            os.ftruncate(self._fd, (1 + nproc) * PAGE)
            fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, SEALS)
        except BaseException:
            os.close(self._fd)
            raise
        self._memory: mmap.mmap | None = None
        self._seen: dict[int, Beat | None] = {}
        self._path = f"/proc/{shown_pid()}/fd/{self._fd}"

    def variable(self, rank: int) -> dict[str, str]:
        """Give the variable by which a rank finds its page."""
        return {VARIABLE: f"{self._path}:{rank}"}

    def _mapped(self) -> mmap.mmap:
        if self._memory is None:  # not before: most groups neither beat nor are stopped
            self._memory = mmap.mmap(self._fd, (1 + self._nproc) * PAGE)
        return self._memory

    def beat(self, rank: int) -> Beat | None:
        """Give a rank's last beat, None if there was none in this life; from any thread.

        Of a rank that was stopped, or died, in the middle of a beat: the last one seen before it.
        """
        try:
            page = read(self._mapped(), (1 + rank) * PAGE, PAGE - COUNTER)
        except (OSError, ValueError):
            return None  # closed
        if page is not None:
            self._seen[rank] = _read(page)
        return self._seen.get(rank)

    def forget(self, rank: int | None = None) -> None:
        """Clear the page of a rank that starts again; None: all pages."""
        memory, empty = self._mapped(), bytes(PAGE)
        for page in range(self._nproc + 1) if rank is None else (rank + 1,):
            self._seen.pop(page - 1, None)
            if any(memory[page * PAGE : page * PAGE + COUNTER]):
                memory[page * PAGE : (page + 1) * PAGE] = empty

    def tell_stop(self, to_signal: float, to_kill: float, number: int = 0) -> None:
        """Tell the ranks that the group is being ended, with the seconds until signal and kill."""
        try:
            memory, now = self._mapped(), time.monotonic_ns()
        except OSError:
            return  # no descriptor is left: they have the signal
        ends, signalled = (now + int(min(s, 1e9) * 1e9) for s in (to_kill, to_signal))
        counter = begin(memory, 0)
        GROUP.pack_into(memory, COUNTER, now, ends, signalled, number)
        finish(memory, 0, counter)

    def close(self) -> None:
        """Close it; ranks that live keep what they have."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _read(page: bytes) -> Beat | None:
    beats, at, step, total, count, names_size, texts_size = RANK.unpack_from(page)
    names_at = NAMES - COUNTER
    texts_at = names_at + names_size
    if not beats or count > MOST_FIELDS or names_at + names_size + texts_size > len(page):
        return None
    names = page[names_at : names_at + names_size].decode(errors="replace").split("\0")
    texts = page[texts_at : texts_at + texts_size].decode(errors="replace")
    fields: dict[str, Any] = {}
    said = texts.split("\0") if texts else []
    for i, name in enumerate(names[:count]):
        (number,) = DOUBLE.unpack_from(page, NUMBERS - COUNTER + 8 * i)
        text = said[i] if i < len(said) else ""
        fields[name] = text or number
    return Beat(beats, at, _number(step), _number(total), fields)


def _number(value: float) -> float | None:
    if value != value:  # noqa: PLR0124 (not a number; `math` is a library to load)
        return None
    return int(value) if value.is_integer() else value
