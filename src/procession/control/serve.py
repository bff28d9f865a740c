"""The thread that serves the clients of one run; it starts with the first of them.

Theory of operation. This is a thread of its own and not the supervisor's loop: a look at a thousand
ranks takes milliseconds, and clients that ask again and again must not delay what the supervisor
has to do. (A run without clients has no such thread.) Everything is non-blocking, in one epoll, and
bounded: a request has 64 KiB at most; a client that does not read its answers is not read from
until it does; the log is taken from what the console has shown last (`output.recent`) only when a
client has room, so that a slow one misses some, and is told how much.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from procession.control.protocol import MOST_LINE, Lines, encode, read_request
from procession.control.words import describe
from procession.values.errors import SpecError

if TYPE_CHECKING:
    from procession.control.door import Door, Shared
    from procession.control.reachable import Reachable

CLIENTS = 32  # at a time
MOST_WAITING = 256 << 10  # bytes that a client has not read yet; beyond, it is not read from
ROOM = 64 << 10  # bytes that wait for a client; below, it gets more of the log
PENDING = 4  # answers of one client that other threads look for
FIRST_WORDS = 10.0  # seconds until a client that says nothing has to go
STACK_SECONDS, NATIVE_SECONDS = 1.0, 15.0  # for ranks to show where they are
LAST_WORDS = 0.3  # seconds that clients have for the last line, when the run has ended
_CREDENTIALS = struct.Struct("3i")


class _Client:
    """One connection. who: at its other end, in words. out: what it has not read yet.

    place: its position in the log, None: it reads none. due: when it is disconnected. leaving: it
    is disconnected when it has read all. pending: how many answers other threads are looking for.
    """

    def __init__(self, connection: socket.socket, who: str) -> None:
        self.socket = connection
        self.who = who
        self.lines = Lines(MOST_LINE)
        self.requests: list[bytes] = []
        self.out = bytearray()
        self.place: tuple[int, int] | None = None
        self.leaving = False
        self.due: float | None = time.monotonic() + FIRST_WORDS
        self.pending = 0

    @property
    def events(self) -> int:
        deaf = self.leaving or len(self.out) > MOST_WAITING
        return (0 if deaf else select.EPOLLIN) | (select.EPOLLOUT if self.out else 0)

    def leave(self) -> None:
        self.leaving = True
        self.place = None
        self.requests.clear()
        self.due = time.monotonic() + FIRST_WORDS


class Server:
    """Serves clients until the run has ended. wake: an eventfd, written to when there is news."""

    def __init__(self, run: Reachable, shared: Shared, door: Door, wake: int) -> None:
        self._run = run
        self._shared = shared
        self._door = door
        self._wake = wake
        self._clients: dict[int, _Client] = {}
        self._later: list[tuple[_Client, bytes]] = []  # answers that other threads have found
        self._told_over = False
        self._epoll = select.epoll()

    def run(self) -> None:
        """Serve, in this thread."""
        self._epoll.register(self._door.fileno(), select.EPOLLIN)
        self._epoll.register(self._wake, select.EPOLLIN)
        try:
            while self._shared.ending is None:
                self._turn(None)
            self._end()
        finally:
            for client in self._clients.values():
                client.socket.close()
            self._epoll.close()

    def _turn(self, until: float | None) -> None:
        now = time.monotonic()
        times = [c.due for c in self._clients.values() if c.due is not None]
        if until is not None:
            times.append(until)
        patience = max(0.0, min(times) - now) if times else None
        for fd, events in self._epoll.poll(patience):
            if fd == self._wake:
                os.eventfd_read(self._wake)
            elif fd == self._door.fileno():
                self._accept()
            elif fd in self._clients:
                self._hear(self._clients[fd], events)
        self._tell_over()
        self._answer_later()
        now = time.monotonic()
        for client in list(self._clients.values()):
            if client.due is not None and client.due <= now:
                self._drop(client)
            else:
                self._serve(client)

    # -- clients come and go

    def _accept(self) -> None:
        try:
            connection = socket.socket(fileno=self._door.accept())
        except OSError:
            return  # it is gone again, or no descriptor is left
        connection.setblocking(False)
        size = _CREDENTIALS.size
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        pid, uid, _ = _CREDENTIALS.unpack(found)
        if uid not in (0, os.geteuid()):
            connection.close()
            return
        client = _Client(connection, f"pid {pid}, user {uid}")
        self._clients[connection.fileno()] = client
        self._epoll.register(connection.fileno(), client.events)
        if len(self._clients) > CLIENTS:
            self._say(client, {"error": f"{CLIENTS} others are looking at this run already"})
            client.leave()
            if len(self._clients) > 2 * CLIENTS:
                self._drop(client)

    def _drop(self, client: _Client) -> None:
        self._clients.pop(client.socket.fileno(), None)
        client.leave()
        client.socket.close()  # which takes it out of epoll

    def _hear(self, client: _Client, events: int) -> None:
        try:
            if events & select.EPOLLIN:
                data = client.socket.recv(MOST_LINE)
                if not data:
                    self._drop(client)
                    return
                client.requests += client.lines.feed(data)
            elif events & (select.EPOLLHUP | select.EPOLLERR):
                self._drop(client)
        except BlockingIOError:
            pass
        except ValueError as e:
            self._say(client, {"error": str(e)})
            client.leave()
        except OSError:
            self._drop(client)

    # -- what they are given

    def _serve(self, client: _Client) -> None:
        """Answer what a client asked, give it more of the log, and send what it takes."""
        if client.socket.fileno() < 0:
            return
        while client.requests and len(client.out) <= MOST_WAITING:
            if client.pending >= PENDING:
                break
            self._answer(client, client.requests.pop(0))
        self._give_log(client)
        self._send(client)

    def _send(self, client: _Client) -> None:
        try:
            while client.out:
                del client.out[: client.socket.send(client.out[:ROOM])]
                self._give_log(client)
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)
            return
        if client.leaving and not client.out:
            self._drop(client)
            return
        self._epoll.modify(client.socket.fileno(), client.events)

    def _give_log(self, client: _Client) -> None:
        recent = self._shared.recent
        while recent is not None and client.place is not None and len(client.out) < ROOM:
            client.place, missed, blocks = recent.read(client.place)
            if missed:
                self._say(client, {"event": "left_out", "lines": missed})
            if not blocks:
                return
            self._say_blocks(client, blocks)

    def _say_blocks(self, client: _Client, blocks: list[tuple[bytes, str]]) -> None:
        for data, stream in blocks:
            text = data.decode(errors="surrogateescape")
            self._say(client, {"event": "log", "stream": stream, "text": text})

    def _say(self, client: _Client, fields: dict[str, Any]) -> None:
        client.out += encode(fields)

    # -- requests

    def _answer(self, client: _Client, line: bytes) -> None:
        try:
            name, given = read_request(line)
        except ValueError as e:
            self._say(client, {"error": str(e)})
            client.leave()
            return
        client.due = None
        try:
            answer = getattr(self, f"_on_{name}")(client, **given)
        except SpecError as e:
            self._say(client, {"to": name, "error": str(e)})
            return
        if answer is not None:
            self._say(client, {"to": name, "value": answer})

    def _on_look(self, client: _Client) -> Any:
        return self._found(client, "look", self._run.look)

    def _on_report(self, client: _Client) -> Any:
        return self._found(client, "report", lambda: describe(self._run.look(), time.time()))

    def _on_log(self, client: _Client, lines: int | None = None, follow: bool | None = None) -> Any:
        recent = self._shared.recent
        value = {"prefixes": self._shared.prefixes, "seen": recent is not None}
        self._say(client, {"to": "log", "value": value})
        if recent is not None:
            place, blocks = recent.last(lines or 0)
            self._say_blocks(client, blocks)
            client.place = place if follow else client.place
        if not follow:
            self._say(client, {"event": "log_end"})

    def _on_stop(
        self, client: _Client, signal: int | None = None, grace: float | None = None
    ) -> Any:
        self._run.stop(signal=signal, grace=grace, wait=False)
        number = int(self._run.spec.stop.signal) if signal is None else signal
        self._shared.note_stop(number, client.who)
        return "asked"

    def _on_kill(self, client: _Client) -> Any:
        self._run.kill(wait=False)
        self._shared.note_stop(9, client.who)
        return "asked"

    def _on_signal(self, _: _Client, rank: int, signal: int) -> Any:
        self._run.send_signal(rank, signal)
        return "sent"

    def _on_stacks(self, client: _Client, native: bool | None = None) -> Any:
        seconds = NATIVE_SECONDS if native else STACK_SECONDS
        self._find(client, "stacks", lambda: self._run.stacks(seconds, native=bool(native)))

    def _found(self, client: _Client, name: str, find: Callable[[], Any]) -> Any:
        """Give an answer; None for one that comes later, from other machines."""
        if not self._run.distant:
            return find()
        self._find(client, name, find)
        return None

    def _find(self, client: _Client, name: str, find: Callable[[], Any]) -> None:
        """Find an answer in a thread of its own: it may take its time."""

        def work() -> None:
            try:
                answer = {"to": name, "value": find()}
            except Exception as e:
                answer = {"to": name, "error": f"{type(e).__name__}: {e}"}
            self._later.append((client, encode(answer)))
            self._shared.wake()

        try:
            threading.Thread(target=work, name="procession-control-ask", daemon=True).start()
        except RuntimeError as e:
            raise SpecError(f"no thread can be started ({e})") from None
        client.pending += 1

    def _answer_later(self) -> None:
        while self._later:
            client, line = self._later.pop(0)
            client.pending -= 1
            client.out += line

    # -- the end

    def _tell_over(self) -> None:
        if not self._told_over and self._run.state.final:
            self._told_over = True
            over: dict[str, Any] = {"event": "over", "state": self._run.state.name}
            if self._clients and not self._run.distant:
                over["look"] = self._run.look()
            for client in self._clients.values():
                self._say(client, over)

    def _end(self) -> None:
        """Tell all clients of the end, as far as they take it in time."""
        until = time.monotonic() + LAST_WORDS
        self._accept()
        self._tell_over()
        waiting: list[_Client] = list(self._clients.values())
        while waiting and time.monotonic() < until:
            for client in waiting:
                caught_up = client.place is None or not self._behind(client)
                if caught_up and not client.leaving and not client.requests:
                    self._say(client, {"event": "end", **(self._shared.ending or {})})
                    client.leave()
            for client in waiting:
                self._serve(client)
            waiting = [c for c in waiting if c.socket.fileno() >= 0]
            if waiting:
                self._turn(min(until, time.monotonic() + 0.05))

    def _behind(self, client: _Client) -> bool:
        self._give_log(client)
        recent = self._shared.recent
        return recent is not None and recent.last(0)[0] != client.place
