"""The `signal` module as it is below its enumerations. Standard library only.

`signal.pthread_sigmask` makes a member of an enumeration of every signal that was blocked: that is
felt where it is called for each rank.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as plain
else:
    import _signal as plain


def catches(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal, as /proc/<pid>/status says."""
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as f:
            caught = f.read().partition(b"\nSigCgt:")[2].split()[0]
    except (OSError, IndexError):
        return False  # it is gone
    return bool(int(caught, 16) >> (number - 1) & 1)


__all__ = ["catches", "plain"]
