"""The mark of a launcher in the memory of a forkserver, and of its forks, where /proc shows it.

Theory of operation. The kernel shows as a process's environment the memory into which its exec put
the variables, whatever became of them since. The mark (`PROCESSION_LAUNCHER`) is the first of them,
and whoever looks for what a launcher has started looks for it. A forkserver that may get another
owner has room behind it, so that the mark of that owner can be written over it, at the same place:
see `worker.title` for why it must not move.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

MARK = b"PROCESSION_LAUNCHER"
ROOM = "PROCESSION_MARK_ROOM"  # the variable that stands behind it
ROOM_BYTES = 48
_ENV_START, _ENV_END = 47, 48  # among `process_fields`


def show_mark(mark: str) -> bool:
    """Show another mark in /proc, and to ranks; whether there was room for it."""
    import ctypes

    from procession.system.files import process_fields

    fields = process_fields("self")
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    area = ctypes.string_at(start, end - start) if 0 < start < end else b""
    text = MARK + b"=" + mark.encode() + b"\0"
    size = _room(area)
    if len(text) > size:
        return False
    ctypes.memmove(start, text.ljust(size, b"\0"), size)
    # Not by `putenv`, which would move the variable.
    data: Any = getattr(os.environ, "_data")  # noqa: B009 - private
    data[MARK] = mark.encode()
    return True


def _room(area: bytes) -> int:
    """Give how many bytes the mark and what stands behind it for that purpose take. Pure."""
    if not area.startswith(MARK + b"="):
        return 0
    first = area.find(b"\0") + 1
    behind = area[first:]
    if behind.startswith(ROOM.encode()):
        return first + behind.find(b"\0") + 1
    return first + len(behind) - len(behind.lstrip(b"\0"))  # it was used before
