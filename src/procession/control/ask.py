"""The client's side of a run's socket."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from procession.control.serve import Lines, decode, encode
from procession.system.directories import Refused, inside, open_runtime
from procession.system.identity import peer_of
from procession.system.processes import state_of

PATIENCE = 10.0  # seconds for an answer: the launcher may be busy
MOMENT = 0.2  # seconds without an answer, after which it is looked whether the launcher is stopped
MOST_LINE = 64 << 20  # bytes of an answer: a look at very many ranks


class NotAnswered(Exception):
    """The run cannot be asked, or will not do it. The text is one line."""


class RunEnded(NotAnswered):
    """The run has ended, or its launcher was killed."""


class Dead(RunEnded):
    """Nobody listens at the run's socket: its launcher was killed."""


class Connection:
    """A connection to a run. Raises NotAnswered.

    name: of its socket. end: what the run's last line said, None until it came. closed: the run has
    hung up. peer: the process that listens, 0 if it is in a namespace of pids around ours.
    """

    def __init__(self, name: str, patience: float = PATIENCE) -> None:
        self.end: dict[str, Any] | None = None
        self.closed = False
        self._patience = patience
        self._lines = Lines(MOST_LINE)
        self._heard: list[dict[str, Any]] = []
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self.socket.settimeout(patience)
            self._connect(name)
        except BaseException:
            self.socket.close()
            raise

    def _connect(self, name: str) -> None:
        try:
            with runtime() as directory:
                self.socket.connect(inside(directory, name))
            self.peer, _ = peer_of(self.socket)
        except ConnectionRefusedError:
            raise Dead(f"the launcher of {name} was killed [P313]") from None
        except FileNotFoundError:
            raise RunEnded(f"{name} has just ended [P313]") from None
        except (OSError, Refused) as e:
            said = str(e) if isinstance(e, Refused) else e.strerror or str(e)
            raise NotAnswered(f"{name} cannot be reached ({said}) [P313]") from None

    def send(self, ask: str, **given: Any) -> None:
        """Ask, and do not wait. Raises NotAnswered."""
        try:
            self.socket.sendall(encode({"ask": ask, **given}))
        except OSError as e:
            raise RunEnded(f"the run does not listen any more ({e.strerror}) [P313]") from None

    def ask(self, ask: str, **given: Any) -> Any:
        """Ask, and give the answer; events that come before it are lost. Raises NotAnswered."""
        self.send(ask, **given)
        return self.answer(ask)

    def answer(self, ask: str) -> Any:
        """Wait for the answer to what was asked. Raises NotAnswered, soon if it is suspended."""
        until = time.monotonic() + self._patience
        while True:
            said = self._next(min(until, time.monotonic() + MOMENT))
            if said is None:
                state = state_of(self.peer)
                if state is not None and state.letter == "T":
                    raise NotAnswered(
                        "the run is suspended (by Ctrl-Z, or SIGSTOP); type fg there, or "
                        f"kill -CONT {self.peer} [P313]"
                    )
                if time.monotonic() >= until:
                    raise NotAnswered(f"the run did not answer within {self._patience:g} s [P313]")
            elif "error" in said:
                raise NotAnswered(str(said["error"]))
            elif said.get("to") == ask:
                return said.get("value")

    def events(self, timeout: float | None = None) -> Generator[dict[str, Any]]:
        """Give what comes, until the run ends; `end` is then set, unless its launcher was killed.

        timeout: seconds after which this generator ends, too.
        """
        until = None if timeout is None else time.monotonic() + timeout
        try:
            while (said := self._next(until)) is not None:
                yield said
        except NotAnswered:
            return

    def _next(self, until: float | None) -> dict[str, Any] | None:
        """Give the next line, None if none comes in time. Raises NotAnswered at the end."""
        while not self._heard:
            left = None if until is None else max(0.0, until - time.monotonic())
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(1 << 16)
            except (TimeoutError, BlockingIOError):
                return None
            except OSError:
                data = b""
            if not data:
                self.closed = True
                raise RunEnded("the run has ended, or its launcher was killed [P313]")
            try:
                self._heard += [decode(line) for line in self._lines.feed(data)]
            except ValueError as e:
                raise NotAnswered(f"it is of another version of procession ({e}) [P313]") from None
        said = self._heard.pop(0)
        if said.get("event") == "end":
            self.end = said
            raise RunEnded("the run has just ended [P313]")
        return said

    def close(self) -> None:
        """Close it; the run goes on."""
        self.socket.close()


@contextmanager
def runtime() -> Generator[int]:
    """Open the directory of sockets while the block runs. Raises Refused, and OSError."""
    directory = open_runtime(make=False)
    try:
        yield directory
    finally:
        os.close(directory)


def sockets() -> list[str]:
    """Name the sockets that there are."""
    with suppress(OSError, Refused), runtime() as directory:
        return sorted(os.listdir(directory))
    return []


def made_at(name: str) -> float:
    """Tell when a socket was made, in seconds since 1970; 0 if it is gone."""
    with suppress(OSError, Refused), runtime() as directory:
        return os.stat(inside(directory, name)).st_mtime
    return 0.0


def remove(name: str) -> None:
    """Remove a socket at which nobody listens."""
    with suppress(OSError, Refused), runtime() as directory:  # or somebody else did
        os.unlink(inside(directory, name))
