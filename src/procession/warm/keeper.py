"""The keeper: a process that holds the sockets of agents between two runs of one user.

Theory of operation. An agent exits when the other end of its socket is closed. The keeper keeps
an agent by holding that end. If the keeper is killed, the kernel closes all ends, and all kept
agents exit at once. The keeper knows of agents only what launchers say about them. It
compares nothing: launchers ask for the list, and choose.

The first run that has something to keep starts it: in a session of its own, as a daemon, with only
those variables of the run that an interpreter reads when it starts. It exits when it keeps nothing
and no run is connected. It also exits, with all that it keeps, when its socket was removed, since
nobody could use or end it any more.
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
from procession.warm.shelf import Item, Shelf, describes

LOOK_SECONDS = 2.0  # between two checks that its socket is still there
EMPTY_SECONDS = 2.0  # without a connection and without anything kept, until it exits
CLIENT_SECONDS = 5.0  # for a client to take an answer
READY = b"ready"


class Keeper:
    """The loop. its_door: its socket."""

    def __init__(self, its_door: door.Door) -> None:
        self._door = its_door
        self._listening = its_door.listening
        self._shelf = Shelf()
        self._held: dict[int, int] = {}  # by number of the item: the socket of an agent
        self._clients: dict[int, tuple[socket.socket, wire.Inbox]] = {}
        self._poll = select.poll()
        self._poll.register(self._listening, select.POLLIN)
        self._watched: dict[int, int] = {}  # descriptor of an agent: number of its item
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
            self._end(self._shelf.expired(time.monotonic()))
            if not self._door.is_ours:
                self._stop()
            if not ready and not self._clients and not self._shelf.items:
                return

    def _patience(self) -> float | None:
        """Give how long to wait, in milliseconds; None: for ever."""
        end = self._shelf.next_end
        if end is not None:
            return max(0.0, min(end - time.monotonic(), LOOK_SECONDS)) * 1000 + 1
        return None if self._clients else EMPTY_SECONDS * 1000

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
        handed = -1
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
            wire.send(sock, answer, () if handed < 0 else (handed,))
        except wire.Broken as e:
            try:
                wire.send(sock, {"error": str(e)})
            except OSError:
                pass
            self._forget(fd)
        except OSError:
            self._forget(fd)
        finally:
            if handed >= 0:  # it is the client's now, or gone
                os.close(handed)

    def _forget(self, fd: int) -> None:
        sock, inbox = self._clients.pop(fd)
        self._poll.unregister(fd)
        inbox.close()
        sock.close()

    def _answer(self, fields: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], int]:
        """Give the answer to a request, and the socket to be sent with it, -1 for none.

        The descriptors that are kept are removed from `fds`.
        """
        ask = fields.get("ask")
        if ask == "list":
            return {"kept": [self._described(item) for item in self._shelf.items]}, -1
        if ask == "keep":
            return self._keep(fields.get("kept"), fds), -1
        if ask == "take":
            item = self._shelf.take(fields.get("id"))
            if item is None:
                return {}, -1
            return {"kept": item.kept}, self._release(item)
        if ask == "stop":
            return {"ended": self._stop()}, -1
        return {"error": f"there is no request {str(ask)[:40]!r}"}, -1

    def _described(self, item: Item) -> dict[str, Any]:
        item.memory = memory_of(item.kept["pid"]) or item.memory
        age = time.monotonic() - item.since
        return {**item.kept, "id": item.id, "age": age, "memory": item.memory}

    def _keep(self, kept: Any, fds: list[int]) -> dict[str, Any]:
        if not describes(kept) or len(fds) != 1:
            return {"error": "it describes no agent"}
        memory = memory_of(kept["pid"])
        item, gone = self._shelf.add(kept, time.monotonic(), memory)
        fd = self._held[item.id] = fds.pop()
        self._watched[fd] = item.id
        self._poll.register(fd, select.POLLIN)
        self._end(gone)
        if item in gone:
            most = kept["most_memory"]
            if memory <= most:
                return {"error": "none may be kept (PROCESSION_WARM_MOST)"}
            return {"error": f"it has {memory >> 20} MB, and {most >> 20} MB may be kept"}
        return {"id": item.id}

    def _release(self, item: Item) -> int:
        fd = self._held.pop(item.id)
        del self._watched[fd]
        self._poll.unregister(fd)
        return fd

    def _lose(self, number: int) -> None:
        """Forget an agent that has exited, or sends something, which it never should."""
        item = self._shelf.take(number)
        if item is not None:
            os.close(self._release(item))

    def _end(self, items: list[Item]) -> None:
        for item in items:
            os.close(self._release(item))

    def _stop(self) -> int:
        """End all that is kept, and stop the loop; gives how many there were."""
        items, self._shelf.items = self._shelf.items, []
        self._end(items)
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
    _say(READY)
    if found is None:
        os._exit(0)
    signal.signal(signal.SIGTERM, _go)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        Keeper(found).run()
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
