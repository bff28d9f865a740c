"""A rank that has returned with torch's process group open stays for a moment, for its peers.

Theory of operation. The peers of a rank may still connect to it when its program is over: gloo's
ranks are not all connected at the moment when one of them is. In a program that has not called
`destroy_process_group`, the end of the process ends the connections. An interpreter with torch
takes 0.3 s to end, in which the peers get ready; so such programs work elsewhere. A rank here ends
in milliseconds, and its peers failed with "Connection closed by peer" now and then. So it waits
until the launcher says that all have returned, or the group is being ended, and 0.25 s at most: its
peers may be on other machines, of which this launcher does not know, or may never return.

Rejected: to wait in all ranks (those without connections would only be slower); `worker.gate` (it
is an argument of a function, and waits for ever).
"""

from __future__ import annotations

import signal
import sys
import time

from procession.worker import board

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every rank would pay
if TYPE_CHECKING:
    from typing import Any

LONGEST = 0.25  # seconds
# Signals that a program sends itself, or is sent by who knows what it does with them.
OF_PROGRAMS = (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGUSR1, signal.SIGUSR2)
LOOK = 0.002  # seconds from one look to the next


def for_peers() -> None:
    """Wait for the peers of this rank, if it has left a process group open."""
    if not _is_connected():
        return
    for number in OF_PROGRAMS:
        signal.signal(number, signal.SIG_IGN)  # the program is over: its timer would end this rank
    ends = time.monotonic() + LONGEST
    while not board.all_returned() and time.monotonic() < ends:
        time.sleep(LOOK)


def _is_connected() -> bool:
    distributed: Any = sys.modules.get("torch.distributed")
    try:
        return (
            distributed is not None
            and distributed.is_initialized()
            and distributed.get_world_size() > 1
        )
    except Exception:
        return False  # a torch without it, or one whose state the program has changed
