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
from procession.system.files import descriptors, field
from procession.values.base import Record
from procession.warm import door, wire
from procession.warm.wire import Unusable, describes

LOOK_SECONDS = 2.0  # between two looks at what is over: the time of an agent, the socket, the work
CLIENT_SECONDS = 5.0  # for a client to take an answer
READY = b"ready"


class Item(Record):
    """A kept agent: its socket, its description, when it came, and its memory in bytes (PSS)."""

    fd: int
    kept: dict[str, Any]
    since: float
    memory: int


class Keeper:
    """The loop. its_door: its socket."""

    def __init__(self, its_door: door.Door) -> None:
        self._door = its_door
        self._listening = its_door.listening
        self._items: dict[int, Item] = {}  # by their descriptors, the least recently used first
        self._clients: dict[int, tuple[socket.socket, wire.Inbox]] = {}
        self._poll = select.poll()
        self._poll.register(self._listening, select.POLLIN)
        self._stopped = False

    def run(self) -> None:
        """Work until there is nothing to do any more."""
        while not self._stopped:
            ready = self._poll.poll(LOOK_SECONDS * 1000)
            for fd, _ in ready:
                if fd == self._listening.fileno():
                    self._accept()
                elif fd in self._items:  # it has exited, or sends something, which it never should
                    self._end(self._items[fd])
                elif fd in self._clients:
                    self._hear(fd)
            now = time.monotonic()
            for item in [*self._items.values()]:
                if item.since + float(item.kept["seconds"]) <= now:
                    self._end(item)
            if not self._door.is_ours:
                self._stop()
            if not ready and not self._clients and not self._items:
                return

    def _accept(self) -> None:
        raw: Any = self._listening
        try:
            fd = raw._accept()[0]
        except OSError:
            return
        sock = socket.socket(fileno=fd)
        pid, uid = wire.peer_of(sock)
        if uid != os.geteuid() or not pid:
            sock.close()
            return
        sock.settimeout(CLIENT_SECONDS)
        self._clients[fd] = sock, wire.Inbox(sock)
        self._poll.register(fd, select.POLLIN)

    def _hear(self, fd: int) -> None:
        sock, inbox = self._clients[fd]
        fds: list[int] = []
        try:
            came = inbox.read()
            if came is not None:
                fields, fds = came
                wire.send(sock, self._answer(fields, fds), fds)
            elif inbox.ended:
                self._forget(fd)
        except Unusable as e:
            try:
                wire.send(sock, {"error": str(e)})
            except OSError:
                pass
            self._forget(fd)
        except OSError:
            self._forget(fd)
        finally:
            for each in fds:
                os.close(each)

    def _forget(self, fd: int) -> None:
        sock, inbox = self._clients.pop(fd)
        self._poll.unregister(fd)
        inbox.close()
        sock.close()

    def _answer(self, fields: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Give the answer to a request.

        fds: the descriptors that came with it; then those that go with the answer.
        """
        ask = fields.get("ask")
        if ask == "list":
            return {"kept": [*map(_described, self._items.values())]}
        if ask == "keep":
            return self._keep(fields.get("kept"), fds)
        if ask == "take":
            pid = fields.get("pid")
            item = next((i for i in self._items.values() if i.kept["pid"] == pid), None)
            if item is None:
                return {}
            fds.append(self._release(item))
            return {"kept": item.kept}
        if ask == "stop":
            return {"ended": self._stop()}
        return {"error": f"there is no request {str(ask)[:40]!r}"}

    def _keep(self, kept: Any, fds: list[int]) -> dict[str, Any]:
        if not describes(kept) or len(fds) != 1:
            return {"error": "it describes no agent"}
        memory, most_memory = memory_of(kept["pid"]), kept["most_memory"]
        if memory > most_memory:
            return {"error": f"it has {memory >> 20} MB, and {most_memory >> 20} MB may be kept"}
        if kept["most"] < 1:
            return {"error": "none may be kept (PROCESSION_WARM_MOST)"}
        fd = fds.pop()
        self._items[fd] = Item(fd, kept, time.monotonic(), memory)
        self._poll.register(fd, select.POLLIN)
        items = self._items.values()
        while len(items) > kept["most"] or sum(i.memory for i in items) > most_memory:
            self._end(next(iter(items)))
        return {}

    def _release(self, item: Item) -> int:
        del self._items[item.fd]
        self._poll.unregister(item.fd)
        return item.fd

    def _end(self, item: Item) -> None:
        os.close(self._release(item))

    def _stop(self) -> int:
        """End all that is kept, and stop the loop; gives how many there were."""
        items = [*self._items.values()]
        for item in items:
            self._end(item)
        self._stopped = True
        return len(items)


def _described(item: Item) -> dict[str, Any]:
    item.memory = memory_of(item.kept["pid"]) or item.memory
    return {**item.kept, "age": time.monotonic() - item.since, "memory": item.memory}


def memory_of(pid: int) -> int:
    """Give the memory of a process in bytes: its own, and its part of what it shares (PSS).

    0 if that cannot be read.
    """
    return field(f"/proc/{pid}/smaps_rollup", "Pss") or 0


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
