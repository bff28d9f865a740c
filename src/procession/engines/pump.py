"""A node process sends its output to the driver, as fast as the driver takes it.

Theory of operation. The node process's own descriptors 1 and 2 become pipes. So everything that the
group shows on its console comes here, and also what ranks without a prefix write there directly.
Whole lines are sent, as far as the driver has given credit: others write to its console, too. Only
of a line that is very long, the beginning is sent before its end has come. Without credit nothing
is read, the pipes fill, and the group waits for its console as for any slow one. So slow output
does not delay the records and heartbeats that use the same link.
"""

from __future__ import annotations

import fcntl
import os
import select
from collections.abc import Callable

from procession.system.eventloop import EventLoop

CREDIT = 64 << 10  # bytes that may be on their way


class Pump:
    """Reads two pipes, and gives blocks of whole lines to `send(stream, data)`; 1 is stdout."""

    def __init__(self, loop: EventLoop, send: Callable[[int, bytes], None]) -> None:
        self._loop = loop
        self._send = send
        self._credit = CREDIT
        self._kept = {1: b"", 2: b""}
        self._ends: dict[int, int] = {}
        self._watching = False
        self._on_dry: Callable[[], None] | None = None

    def take_over(self) -> int:
        """Make this process's descriptors 1 and 2 lead here; gives a duplicate of the old 2."""
        own = fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, 3)
        for stream in (1, 2):
            read_end, write_end = os.pipe2(os.O_CLOEXEC)
            os.dup2(write_end, stream)
            os.close(write_end)
            os.set_blocking(read_end, False)
            self._ends[stream] = read_end
        self._watch()
        return own

    def more(self, credit: int) -> None:
        """Take more credit: the driver has shown so many bytes."""
        self._credit += credit
        self._watch()
        self._tell_if_dry()

    def when_dry(self, call: Callable[[], None]) -> None:
        """Call `call` once, as soon as all that was written has been sent."""
        self._on_dry = call
        for stream in self._ends:
            self._read(stream)
        self._tell_if_dry()

    def give_up(self) -> None:
        """Throw away what is still to be sent."""
        self._kept = {1: b"", 2: b""}
        for end in self._ends.values():
            try:
                while os.read(end, 1 << 16):
                    pass
            except BlockingIOError:
                pass
        self._tell_if_dry()

    def _watch(self) -> None:
        wanted = self._credit > 0
        for stream, end in self._ends.items() if wanted is not self._watching else ():
            if wanted:
                self._loop.watch(end, lambda stream=stream: self._read(stream))
            else:
                self._loop.forget(end)
        self._watching = wanted

    def _read(self, stream: int) -> None:
        if self._credit <= 0:
            return
        try:
            data = os.read(self._ends[stream], self._credit)
        except BlockingIOError:
            data = b""
        if data:
            data = self._kept[stream] + data
            end = data.rfind(b"\n") + 1
            if len(data) - end > CREDIT // 2:
                end = len(data)
            self._kept[stream] = data[end:]
            self._put(stream, data[:end])
        if self._on_dry is not None:
            rest, self._kept[stream] = self._kept[stream], b""
            self._put(stream, rest)
            self._tell_if_dry()

    def _put(self, stream: int, data: bytes) -> None:
        if data:
            self._credit -= len(data)
            self._send(stream, data)
            self._watch()

    def _tell_if_dry(self) -> None:
        call = self._on_dry
        if call is not None and not any(self._kept.values()) and not self._more_waits():
            self._on_dry = None
            call()

    def _more_waits(self) -> bool:
        """Tell whether there is something in the pipes; this process holds their other ends."""
        poll = select.poll()
        for end in self._ends.values():
            poll.register(end, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close the pipes' ends."""
        for end in self._ends.values():
            if self._watching:
                self._loop.forget(end)
            os.close(end)
        self._ends.clear()
