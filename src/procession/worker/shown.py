"""What /proc shows of an agent and of a rank: its title, and the mark of its launcher.

Theory of operation of titles, which `ps`, `top` and `pgrep -f` show. The kernel shows as a
process's command line the memory into which its exec put the arguments. A forked rank has those of
its agent there, and overwrites them with its title. The first word and the number of words
stay: so libraries that look for this memory (`setproctitle`) find it, by the first word and the
first variable after the last one. The agent's command line ends in a long word, so that there
is room.

The short name, which `top` shows, is the kernel's own: 15 bytes. It has no space: /proc/self/stat
has it among its fields, and whoever counts these by spaces would read the wrong one (CPython 3.12
and later does, to find out whether a process that forks has threads).

Theory of operation of the mark. The kernel shows as a process's environment the memory into which
its exec put the variables, whatever became of them since. The mark (`PROCESSION_LAUNCHER`) is the
first of them, and whoever looks for what a launcher has started looks for it. An agent that may
get another owner has room behind it, so that the mark of that owner can be written over it, at the
same place: variables that moved would hide the place of titles from `setproctitle`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

TITLE_ROOM = 200  # bytes of the word that is there to be overwritten
_SHORT = 15
_ARG_START, _ENV_START = 45, 47  # among `process_fields`

_place: tuple[int, int, int] | None = None  # of the title: address, bytes, words


def find_place() -> None:
    """Find the memory for titles of forks of this process, by its own arguments."""
    global _place
    if _place is not None:
        return
    try:
        start, area = _memory(_ARG_START)
    except (OSError, ValueError, IndexError):
        return
    first = area.find(b"\0") + 1
    words = area.count(b"\0", first)
    if first and area.endswith(b"\0") and len(area) - first > TITLE_ROOM:
        _place = start + first, len(area) - first - words, words


def _memory(field: int) -> tuple[int, bytes]:
    """Give where the kernel put words for this process, and what is there. Raises OSError.

    field: of the address, among `process_fields`; that of the end is behind it.
    """
    import ctypes

    from procession.system.files import process_fields

    start, end = map(int, process_fields("self")[field : field + 2])
    return start, ctypes.string_at(start, end - start) if 0 < start < end else b""


def show(title: str) -> None:
    """Set the title of this process, if that is possible."""
    if _place is not None:
        import ctypes

        address, room, words = _place
        text = title.encode(errors="replace")[:room].decode(errors="ignore").encode()
        # As many words as before: the padded title, and empty ones.
        ctypes.memmove(address, text.ljust(room) + b"\0" * words, room + words)
    show_short(title)


def show_short(title: str) -> None:
    """Set the short name: the beginning of the program's, and the rank."""
    name, _, rank = title.rpartition(" [rank ")
    number = rank.partition("/")[0]
    kept = name.encode(errors="replace")[: _SHORT - 1 - len(number)].decode(errors="ignore")
    try:
        with open("/proc/self/comm", "wb", 0) as f:
            f.write(f"{'_'.join(kept.split())}:{number}".encode())
    except OSError:
        pass  # there is no /proc, or it is read-only


MARK = b"PROCESSION_LAUNCHER"
ROOM = "PROCESSION_MARK_ROOM"  # the variable that stands behind it
ROOM_BYTES = 48
# A variable that an agent starts with, unless its user has set it: the C library asks for huge
# pages where it takes memory from the kernel (glibc 2.35; "Memory Allocation Tunables" in its
# manual). A fork of a process that has torch then takes much less time. It is the last one:
# when it is taken away, no other one moves.
TUNABLES, HUGE_PAGES = "GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"


def show_mark(mark: str) -> bool:
    """Show another mark in /proc, and to ranks; whether there was room for it."""
    import ctypes

    start, area = _memory(_ENV_START)
    text, room = MARK + b"=" + mark.encode() + b"\0", ROOM.encode() + b"="
    left = _room(area) - len(text) - len(room) - 1
    if left < 0:
        return False
    ctypes.memmove(start, text + room + b" " * left + b"\0", _room(area))
    # Not by `putenv`, which would move the variable.
    data: Any = getattr(os.environ, "_data")  # noqa: B009 - private
    data[MARK] = mark.encode()
    return True


def _room(area: bytes) -> int:
    """Give how many bytes the mark and the variable behind it take, 0 if it is not there. Pure."""
    first = area.find(b"\0") + 1
    if not area.startswith(MARK + b"=") or not area[first:].startswith(ROOM.encode() + b"="):
        return 0
    return area.find(b"\0", first) + 1
