"""A client of the keeper: a launcher, or the command that lists and stops.

Nothing here waits longer than `SECONDS` for an answer of the keeper. A keeper that is stopped
(SIGSTOP) is not waited for at all.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Mapping
from typing import Any, cast

from procession.agent.boot import own_python
from procession.system.processes import STOPPED, describe, state_of
from procession.warm import door, wire
from procession.warm.door import NoKeeper, Unusable
from procession.warm.keeper import READY
from procession.warm.shelf import describes

SECONDS = 2.0  # for each answer
START_SECONDS = 5.0  # for a keeper to start


class Connection:
    """A connection to the keeper. pid: of the keeper. Raises NoKeeper, and Unusable."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._sock = door.knock(seconds)
        self._inbox = wire.Inbox(self._sock)
        self.pid, _ = wire.peer_of(self._sock)
        if not self.pid:
            self.close()
            raise Unusable("it is in another namespace of pids")

    def list(self) -> list[dict[str, Any]]:
        """Give what is kept, as in `shelf`, with `id`, `age` in seconds and `memory` in bytes.

        Raises Unusable.
        """
        kept = self._ask({"ask": "list"})[0].get("kept")
        if not isinstance(kept, list):
            raise Unusable("its answer cannot be read")
        return [each for each in cast("list[Any]", kept) if describes(each) and "id" in each]

    def take(self, number: int) -> tuple[dict[str, Any], int] | None:
        """Take a kept agent; gives its description and socket, None if it is gone.

        Raises Unusable.
        """
        fields, fds = self._ask({"ask": "take", "id": number})
        kept = fields.get("kept")
        if len(fds) != 1 or not describes(kept):
            for fd in fds:
                os.close(fd)
            return None
        return kept, fds[0]

    def keep(self, kept: Mapping[str, Any], fd: int) -> None:
        """Have an agent kept; `fd`: its socket, which stays open here. Raises Unusable."""
        self._ask({"ask": "keep", "kept": dict(kept)}, fd)

    def stop(self) -> int:
        """End all that is kept, and the keeper; gives how many there were. Raises Unusable."""
        return int(self._ask({"ask": "stop"})[0].get("ended", 0))

    def _ask(self, fields: dict[str, Any], *fds: int) -> tuple[dict[str, Any], list[int]]:
        state = state_of(self.pid)
        if state is not None and state.letter in STOPPED:
            raise Unusable(f"it {describe(self.pid)}")
        try:
            wire.send(self._sock, fields, fds)
            came = None
            while came is None:
                came = self._inbox.read()
                if self._inbox.ended:
                    raise Unusable("it closed the connection")
        except wire.Broken as e:
            raise Unusable(str(e)) from None
        except TimeoutError:
            raise Unusable(f"it does not answer: it {describe(self.pid)}") from None
        except OSError as e:
            raise Unusable(e.strerror or str(e)) from None
        answer, got = came
        if "error" in answer:
            for fd in got:
                os.close(fd)
            raise Unusable(str(answer["error"])[:200])
        return answer, got

    def close(self) -> None:
        """Close the connection."""
        self._inbox.close()
        self._sock.close()


def start_keeper(env: Mapping[str, str]) -> Connection:
    """Start a keeper, and connect to it. env: its variables. Raises NoKeeper, and Unusable."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = 0
    try:
        pid = os.posix_spawn(
            sys.executable,
            own_python("procession.warm.keeper:main"),
            {name: value for name, value in env.items() if name},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, writer, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
            ],
            setpgroup=0,  # what it forks is there until it is the keeper
        )
        os.close(writer)
        writer = -1
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        said = os.read(reader, 400) if poll.poll(START_SECONDS * 1000) else b""
        if said != READY:
            raise Unusable(said.decode(errors="replace") or "it does not start")
        return Connection()
    except OSError as e:
        raise Unusable(e.strerror or str(e)) from None
    finally:
        for fd in (reader, writer):
            if fd >= 0:
                os.close(fd)
        if pid:
            _end_starting(pid)


def _end_starting(pid: int) -> None:
    """End what was started, but for the keeper, which is a fork of it."""
    try:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass  # the program has reaped it


__all__ = ["Connection", "NoKeeper", "Unusable", "start_keeper"]
