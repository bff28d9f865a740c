"""prctl(2): child subreaper and parent-death signal. Standard library only."""

from __future__ import annotations

import ctypes
import os

from procession.system import plain as signal
from procession.system.files import named

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SIGKILL = int(signal.SIGKILL)

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
