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

__all__ = ["plain"]
