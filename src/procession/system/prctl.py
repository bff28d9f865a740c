"""What a process asks of the kernel for itself: prctl(2), madvise(2). Standard library only.

A fork copies the entry of each page, and each page that it then writes to makes a fault: with torch
imported, 37,000 entries. Where 512 small pages are one huge page, one entry is copied. What the C
library of an agent takes lies in such pages from the beginning (`shown.TUNABLES`). Other processes
can have their pages put together (`MADV_COLLAPSE`, Linux 6.1).
"""

from __future__ import annotations

import ctypes
import os

from procession.system import plain as signal
from procession.system.files import named, read

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SIGKILL = int(signal.SIGKILL)
COLLAPSE = 25
HUGE = 2 << 20  # bytes of a huge page; where they have another size, nothing is put together

_call = ctypes.CDLL(None, use_errno=True).prctl
_call.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


def _prctl(option: int, argument: int, name: str) -> None:
    if _call(option, argument, 0, 0, 0) != 0:
        errno = ctypes.get_errno()
        raise named(f"prctl({name})", OSError(errno, os.strerror(errno)))


def become_subreaper() -> None:
    """Make orphans among this process's descendants its children. Raises OSError."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1, "PR_SET_CHILD_SUBREAPER")


def die_with_parent(parent: int) -> bool:
    """Be killed when the thread that forked this process ends.

    False if `parent` is gone already: then no signal will come, and the caller must go by itself.
    """
    hear_of_parents_end(SIGKILL)
    return os.getppid() == parent


def hear_of_parents_end(number: int) -> None:
    """Get a signal when the thread that started this process ends; 0: none. Raises OSError.

    SIGCONT wakes a process that is stopped (SIGSTOP).
    """
    _prctl(PR_SET_PDEATHSIG, number, "PR_SET_PDEATHSIG")


def gather_memory() -> None:
    """Put the pages of this process together in huge ones, unless the administrator forbids that.

    Nothing is raised: it is an advice, which a kernel may refuse.
    """
    if "[never]" in (read("/sys/kernel/mm/transparent_hugepage/enabled") or "[never]"):
        return
    for line in (read("/proc/self/maps") or "").splitlines():
        where, rights, _, _, inode, *_ = line.split()
        begin, end = (int(word, 16) for word in where.split("-"))
        at = -(-begin // HUGE) * HUGE
        if rights == "rw-p" and inode == "0" and end - at >= HUGE:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(at), ctypes.c_size_t(end - at), COLLAPSE)
