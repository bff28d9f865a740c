"""The keeper: a process that holds the sockets of forkservers between two runs of one user.

Theory of operation. A forkserver exits when the other end of its socket is closed. The keeper keeps
a forkserver by holding that end. If the keeper is killed, the kernel closes all ends, and all kept
forkservers exit at once. The keeper knows of forkservers only what launchers say about them. It
compares nothing: launchers ask for the list, and choose.

The first run that needs a keeper starts it: in a session of its own, as a daemon, with only those
variables of the run that an interpreter reads when it starts. It exits when it keeps nothing and no
run needs it: each such run holds a connection. It also exits, with all that it keeps, when its
socket was removed, since nobody could use or end it any more.
"""

from __future__ import annotations

import _socket as socket
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

from procession.system.directories import Refused
from procession.system.files import descriptors
from procession.warm import door, wire
from procession.warm.shelf import Item, Shelf, check

LOOK_SECONDS = 2.0  # between two checks that its socket is still there
EMPTY_SECONDS = 2.0  # without a connection and without anything kept, until it exits
GOING_SECONDS = 10.0  # for a forkserver to exit
CLIENT_SECONDS = 5.0  # for a client to take an answer
READY = b"ready"


class Held:
    """The socket of a kept forkserver, and its pidfd (-1 if there is none)."""

    def __init__(self, fd: int, pid: int) -> None:
        self.fd = fd
        try:
            self.pidfd = os.pidfd_open(pid)
        except OSError:
            self.pidfd = -1

    def close(self) -> None:
        """Close both."""
        os.close(self.fd)
        if self.pidfd >= 0:
            os.close(self.pidfd)


class Keeper:
    """The loop. its_door: its socket. lifeline: a pipe from the launcher that has started it,
    which closes the other end when it has connected, or exits.
    """

    def __init__(self, its_door: door.Door, lifeline: int) -> None:
        self._door = its_door
        self._listening = its_door.listening
        self._lifeline = lifeline
        self._shelf = Shelf()
        self._held: dict[int, Held] = {}  # by number of the item
        self._clients: dict[int, tuple[socket.socket, wire.Inbox]] = {}
        self._poll = select.poll()
        self._poll.register(self._listening, select.POLLIN)
        self._poll.register(lifeline, 0)
        self._watched: dict[int, int] = {}  # descriptor of a forkserver: number of its item
        self._stopped = False

    def run(self) -> None:
        """Work until there is nothing to do any more."""
        while not self._stopped:
            ready = self._poll.poll(self._patience())
            for fd, _ in ready:
                if fd == self._listening.fileno():
                    self._accept()
                elif fd in self._watched:
                    self._lose(self._watched[fd])
                elif fd in self._clients:
                    self._hear(fd)
                elif fd == self._lifeline:
                    self._poll.unregister(fd)
                    os.close(fd)
                    self._lifeline = -1
            self._end(self._shelf.expired(time.monotonic()))
            if not self._door.is_ours:
                self._stop()
            if not ready and self._unused and not self._shelf.items:
                return

    @property
    def _unused(self) -> bool:
        return not self._clients and self._lifeline < 0

    def _patience(self) -> float | None:
        """Give how long to wait, in milliseconds; None: for ever."""
        end = self._shelf.next_end
        if end is not None:
            return max(0.0, min(end - time.monotonic(), LOOK_SECONDS)) * 1000 + 1
        return EMPTY_SECONDS * 1000 if self._unused else None

    def _accept(self) -> None:
        raw: Any = self._listening
        try:
            fd = raw._accept()[0]
        except OSError:
            return
        sock = socket.socket(fileno=fd)
        try:
            pid, uid = wire.peer_of(sock)
        except OSError:
            pid, uid = 0, -1
        if uid != os.geteuid() or not pid:
            sock.close()
            return
        sock.settimeout(CLIENT_SECONDS)
        self._clients[fd] = sock, wire.Inbox(sock)
        self._poll.register(fd, select.POLLIN)

    def _hear(self, fd: int) -> None:
        sock, inbox = self._clients[fd]
        answer: dict[str, Any] = {}
        handed: Held | None = None
        try:
            came = inbox.read()
            if came is None:
                if inbox.ended:
                    self._forget(fd)
                return
            fields, fds = came
            try:
                answer, handed = self._answer(fields, fds)
            finally:
                for each in fds:
                    os.close(each)
            wire.send(sock, answer, () if handed is None else (handed.fd,))
        except wire.Broken as e:
            try:
                wire.send(sock, {"error": str(e)})
            except OSError:
                pass
            self._forget(fd)
        except OSError:
            self._forget(fd)
        finally:
            if handed is not None:  # it is the client's now, or gone
                handed.close()

    def _forget(self, fd: int) -> None:
        sock, inbox = self._clients.pop(fd)
        self._poll.unregister(fd)
        inbox.close()
        sock.close()

    def _answer(self, fields: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], Held | None]:
        """Give the answer to a request, and the forkserver to be sent with it.

        The descriptors that are kept are removed from `fds`.
        """
        ask = fields.get("ask")
        if ask == "list":
            return {"kept": [self._described(item) for item in self._shelf.items]}, None
        if ask == "keep":
            return self._keep(fields.get("kept"), fds), None
        if ask == "take":
            item = self._shelf.take(fields.get("id"))
            if item is None:
                return {}, None
            return {"kept": item.kept}, self._release(item)
        if ask == "stop":
            return {"ended": self._stop()}, None
        return {"error": f"there is no request {str(ask)[:40]!r}"}, None

    def _described(self, item: Item) -> dict[str, Any]:
        item.memory = memory_of(item.kept["pid"]) or item.memory
        age = time.monotonic() - item.since
        return {**item.kept, "id": item.id, "age": age, "memory": item.memory}

    def _keep(self, kept: Any, fds: list[int]) -> dict[str, Any]:
        wrong = check(kept) or ("" if len(fds) == 1 else "one descriptor comes with it")
        if wrong:
            return {"error": wrong}
        memory = memory_of(kept["pid"])
        item, gone = self._shelf.add(kept, time.monotonic(), memory)
        held = self._held[item.id] = Held(fds.pop(), kept["pid"])
        self._watched[held.fd] = item.id
        self._poll.register(held.fd, select.POLLIN)
        self._end(gone)
        if item in gone:
            most = kept["most_memory"]
            if memory <= most:
                return {"error": "none may be kept (PROCESSION_WARM_MOST)"}
            return {"error": f"it has {memory >> 20} MB, and {most >> 20} MB may be kept"}
        return {"id": item.id}

    def _release(self, item: Item) -> Held:
        held = self._held.pop(item.id)
        del self._watched[held.fd]
        self._poll.unregister(held.fd)
        return held

    def _lose(self, number: int) -> None:
        """Forget a forkserver that has exited, or sends something, which it never should."""
        item = self._shelf.take(number)
        if item is not None:
            self._release(item).close()

    def _end(self, items: list[Item]) -> None:
        for item in items:
            self._release(item).close()

    def _stop(self) -> int:
        """End all that is kept, and stop the loop; gives how many there were."""
        items, self._shelf.items = self._shelf.items, []
        helds = [self._release(item) for item in items]
        for held in helds:
            os.close(held.fd)
        until = time.monotonic() + GOING_SECONDS
        for held in helds:
            if held.pidfd < 0:
                continue
            poll = select.poll()
            poll.register(held.pidfd, select.POLLIN)
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                try:
                    signal.pidfd_send_signal(held.pidfd, signal.SIGKILL)
                except OSError:
                    pass  # it has just gone
            os.close(held.pidfd)
        self._stopped = True
        return len(items)


def memory_of(pid: int) -> int:
    """Give the memory of a process in bytes: its own, and its part of what it shares (PSS).

    0 if that cannot be read.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as f:
            for line in f:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def main() -> None:
    """Be the keeper. Says on stdout that it is ready, or in one line why it cannot be."""
    if os.fork():
        os._exit(0)  # so that no launcher has to reap the keeper
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    for fd in descriptors():
        if fd > 2:
            os.close(fd)
    try:
        found = door.open_door()
    except (Refused, OSError) as e:
        said = str(e) if isinstance(e, Refused) else e.strerror or str(e)
        _say(said.encode())
        os._exit(1)
    lifeline = os.dup(1)
    _say(READY)
    if found is None:
        os._exit(0)
    signal.signal(signal.SIGTERM, _go)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        Keeper(found, lifeline).run()
    finally:
        found.leave()
        os._exit(0)


def _go(_number: int, _frame: object) -> NoReturn:
    sys.exit(0)  # by way of `main`, which removes the socket


def _say(text: bytes) -> None:
    try:
        os.write(1, text)
    except OSError:
        pass  # its launcher does not wait any more
    os.dup2(0, 1)
    os.dup2(0, 2)
