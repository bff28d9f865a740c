"""Serves one client of a run, in a thread of its own.

Theory of operation. A look at a thousand ranks takes milliseconds, and a client may ask again and
again, or read slowly: all that is done in the client's own thread, which may wait, and not in the
driver's loop. The log is taken from what the console has shown last (`output.recent`) when the
client has read what was before, so that a slow one misses some, and is told how much. Whoever
follows it gets more ten times a second; nothing has to wake this thread but its client, and the end
of the run, for which `Reach.close` ends the incoming half of the connection.

What goes over the socket is one JSON object in each line, in both directions. A client asks, and
each request has one answer:

    {"procession": 1, "ask": "look"}
    {"procession": 1, "to": "look", "value": {...}}      or, with "error" for "value", why not

The methods of `Visit` say what each request takes. Between answers come events, which a client may
pass over:

    {"procession": 1, "event": "log", "stream": "out", "text": "..."}    after the request "log"
    {"procession": 1, "event": "left_out", "lines": 512}                 it was too slow
    {"procession": 1, "event": "end", "state": ..., "code": 1, "report": "..."}    the last line

Text is UTF-8; bytes that are not are lone surrogates, as `os.fsdecode` makes them.
"""

from __future__ import annotations

import json
import os
import select
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from procession.system.identity import peer_of
from procession.values.errors import SpecError
from procession.worker.breakpoints import HALT

if TYPE_CHECKING:
    import _socket


VERSION = 1
MOST_LINE = 64 << 10  # bytes of a request
MOMENT = 100  # milliseconds between two looks for more of the log
STACK_SECONDS, NATIVE_SECONDS = 1.0, 15.0  # for ranks to show where they are


def encode(fields: dict[str, Any]) -> bytes:
    """Write one line."""
    return json.dumps({"procession": VERSION, **fields}, default=repr).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Read one line. Raises ValueError for what is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not a line of JSON") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    said = cast("dict[str, Any]", found)
    if said.get("procession") != VERSION:
        raise ValueError(f"version {said.get('procession')!r} is not known here, only {VERSION}")
    return said


class Lines:
    """Cuts what comes into lines. Raises ValueError for one that does not end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; gives the lines that they complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self._most:
            raise ValueError(f"a line of more than {self._most} bytes")
        return lines


class Visit:
    """The visit of one client. Its public methods but `serve` are the requests.

    reach: the `Reach` of the run.
    """

    def __init__(self, guest: _socket.socket, reach: Any) -> None:
        self._guest = guest
        self._reach = reach
        self._driver = reach.run.driver
        self._who = ""
        self._place: tuple[int, int] | None = None  # in the log, if it is followed
        self._woken = -1  # an eventfd, where ranks are debugged; and what these have said
        self._said: deque[dict[str, Any]] = deque()

    def serve(self) -> None:
        """Serve the client until it goes, or the run has ended."""
        try:
            pid, uid = peer_of(self._guest)
            if uid not in (0, os.geteuid()):
                return
            self._who = f"pid {pid}, user {uid}"
            for line in self._lines():
                self._answer(line)
            if self._reach.ending is not None:
                self._tell_end(self._reach.ending)
        except ValueError as e:
            self._say(error=str(e))
        except OSError:
            pass  # it has gone
        finally:
            if self._woken >= 0:
                self._driver.loop.request(self._leave, certain=True)

    def _lines(self) -> Iterator[bytes]:
        lines = Lines(MOST_LINE)
        incoming = select.poll()
        incoming.register(self._guest, select.POLLIN)
        patience: int | None = None  # for ever
        while True:
            ready = [fd for fd, _ in incoming.poll(patience)]
            if self._woken in ready:
                os.eventfd_read(self._woken)
            while self._said:
                with suppress(OSError):  # it has gone, but what it has asked before counts
                    self._say(event="debug", **self._said.popleft())
            if self._guest.fileno() in ready:
                data = self._guest.recv(MOST_LINE)
                if not data:
                    return
                for line in lines.feed(data):
                    yield line
                    if self._woken >= 0:
                        incoming.register(self._woken, select.POLLIN)
            more = self._give_log()
            patience = None if self._place is None else 0 if more else MOMENT

    def _say(self, **fields: Any) -> None:
        self._guest.sendall(encode(fields))

    def _answer(self, line: bytes) -> None:
        given = decode(line)
        del given["procession"]
        name = given.pop("ask", None)
        if name not in ("look", "log", "stop", "kill", "signal", "stacks", "debug", "tell", "halt"):
            raise ValueError(f"there is no request {str(name)[:40]!r}")
        try:
            value = getattr(self, name)(**given)
        except SpecError as e:
            self._say(to=name, error=str(e))
        except Exception as e:
            self._say(to=name, error=f"{type(e).__name__}: {e}")
        else:
            if value is not None:
                self._say(to=name, value=value)

    # -- requests

    def look(self) -> Any:
        """Give what is known of the run; see `Group.look`."""
        return self._reach.run.look()

    def log(self, lines: int | None = None, follow: bool | None = None) -> None:
        """Give the last lines, and with `follow` those that come."""
        recent = self._driver.display.recent
        self._say(to="log", value={"seen": recent is not None})
        if recent is not None:
            place, blocks = recent.last(lines or 0)
            self._say_blocks(blocks)
            self._place = place if follow else self._place
        if not follow:
            self._say(event="log_end")

    def stop(
        self, signal: int | None = None, grace: float | None = None, who: str = "another terminal"
    ) -> str:
        """End the run; see `Group.stop`. who: wants that, in words."""
        self._reach.run.stop(signal=signal, grace=grace, wait=False, stacks=True)
        number = self._driver.stop_signal if signal is None else signal
        self._reach.note_stop(number, self._who, who)
        return "asked"

    def kill(self) -> str:
        """End the run by SIGKILL."""
        self._reach.run.kill(wait=False)
        self._reach.note_stop(9, self._who)
        return "asked"

    def signal(self, rank: int, signal: int) -> str:
        """Send a signal to a rank."""
        self._reach.run.send_signal(rank, signal)
        return "sent"

    def stacks(self, native: bool | None = None) -> Any:
        """Say where ranks are; see `Group.stacks`."""
        seconds = NATIVE_SECONDS if native else STACK_SECONDS
        return self._driver.stacks(seconds, native=bool(native))

    def debug(self) -> Any:
        """Give which ranks have stopped; from now on, tell what ranks say to who debugs them."""
        if self._driver.undebugged:
            raise SpecError(f"it cannot be debugged: {self._driver.undebugged}")
        if self._woken < 0:
            self._woken = os.eventfd(0, os.EFD_CLOEXEC)
            self._driver.loop.request(lambda: self._driver.debugged.join(self._hear_rank))
        return {"nproc": self._driver.spec.nproc}

    def tell(self, rank: int, said: dict[str, Any]) -> None:
        """Say something to a rank; see `worker.debugging`."""
        self._driver.loop.request(lambda: self._driver.debugged.tell(rank, said))

    def halt(self, rank: int, again: bool = False) -> str:
        """Stop a rank that runs. again: that was asked before, and it may have stopped."""
        if again and rank in self._driver.debugged.stopped:
            return "stopped"
        self._driver.request_signal(rank, HALT, only_caught=True)
        return "asked"

    def _hear_rank(self, rank: int, said: dict[str, Any]) -> None:
        """Take what a rank says, in the thread of the driver."""
        self._said.append({"rank": rank, "said": said})
        os.eventfd_write(self._woken, 1)

    def _leave(self) -> None:
        self._driver.debugged.leave(self._hear_rank)
        os.close(self._woken)

    # -- events

    def _give_log(self) -> bool:
        """Give some more of the log; tells whether there was any."""
        recent = self._driver.display.recent
        if recent is None or self._place is None:
            return False
        self._place, missed, blocks = recent.read(self._place)
        if missed:
            self._say(event="left_out", lines=missed)
        self._say_blocks(blocks)
        return bool(blocks)

    def _say_blocks(self, blocks: list[tuple[bytes, str]]) -> None:
        for data, stream in blocks:
            self._say(event="log", stream=stream, text=data.decode(errors="surrogateescape"))

    def _tell_end(self, ending: dict[str, Any]) -> None:
        while self._give_log():
            pass
        self._say(event="end", **{"state": "FAILED", "code": 1, "report": "", **ending})
