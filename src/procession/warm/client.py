"""A client of the keeper: a launcher, or the command that lists and stops.

Nothing here waits longer than `SECONDS` for an answer of the keeper. A keeper that is stopped
(SIGSTOP) is not waited for at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

from procession.agent.boot import own_python
from procession.system.processes import STOPPED, describe, state_of
from procession.warm import door, wire
from procession.warm.door import NoKeeper
from procession.warm.keeper import READY
from procession.warm.wire import Unusable, describes

SECONDS = 2.0  # for each answer
START_SECONDS = 5.0  # for a keeper to start


class Connection:
    """A connection to the keeper. pid: of the keeper. Raises NoKeeper, and Unusable."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._sock, self.pid = door.knock(seconds)
        self._inbox = wire.Inbox(self._sock)

    def list(self) -> list[dict[str, Any]]:
        """Give what is kept, as in `wire`, with `age` in seconds and `memory` in bytes.

        Raises Unusable.
        """
        kept = self._ask({"ask": "list"})[0].get("kept")
        if not isinstance(kept, list):
            raise Unusable("its answer cannot be read")
        return [each for each in cast("list[Any]", kept) if describes(each) and "age" in each]

    def take(self, pid: int) -> tuple[dict[str, Any], int] | None:
        """Take a kept agent; gives its description and socket, None if it is gone.

        Raises Unusable.
        """
        fields, fds = self._ask({"ask": "take", "pid": pid})
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
    import subprocess

    try:
        # What is started forks the keeper, and exits.
        said = subprocess.run(
            own_python("procession.warm.keeper:main"),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            timeout=START_SECONDS,
            check=False,
        ).stdout
    except subprocess.TimeoutExpired:
        raise Unusable("it does not start") from None
    except OSError as e:
        raise Unusable(e.strerror or str(e)) from None
    if said != READY:
        raise Unusable(said.decode(errors="replace") or "it does not start")
    return Connection()


__all__ = ["Connection", "NoKeeper", "Unusable", "start_keeper"]
