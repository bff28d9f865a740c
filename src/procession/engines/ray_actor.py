"""What stands between Ray and an agent: an actor that holds one agent process.

It runs in a worker process of Ray, on any node, and imports the standard library only. The agent is
a process of its own, not the actor itself: it has a main thread, signals and children of its own,
which Ray's workers keep for themselves. It cannot outlive its actor: the actor holds the other end
of its standard input.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence

from procession.engines.contract import ON_STDIN, SLOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

TAIL = 20  # lines of what an agent prints that are kept
# What Ray puts into the environment of a worker that did not have it: for its own tasks, not for
# ranks. OMP_NUM_THREADS is the CPUs of the actor, which would be those of all ranks of the node.
OF_RAY = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT")


class AgentActor:
    """Holds the agent of one slot."""

    def where(self) -> str:
        """Give the name of this machine; that it answers says that the actor is there."""
        return socket.gethostname()

    def run(
        self, slot: int, argv: Sequence[str], env: Mapping[str, str]
    ) -> tuple[str, int, list[str]]:
        """Run an agent to its end; gives the machine's name, its exit status and its last lines."""
        around = as_started(dict(os.environ), _initial())
        around |= {**env, SLOT: str(slot), ON_STDIN: "1"}
        # Ray's workers have SIGINT blocked, and what they start would, too.
        blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            agent = subprocess.Popen(
                [sys.executable, *argv[1:]],
                env=around,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        assert agent.stdout is not None
        tail: deque[str] = deque(maxlen=TAIL)
        reader = threading.Thread(target=_keep, args=(agent.stdout, tail), daemon=True)
        reader.start()
        status = agent.wait()
        reader.join(1)  # whom it started may hold the pipe for longer
        return socket.gethostname(), status, list(tail)


def as_started(now: dict[str, str], initial: Mapping[str, str]) -> dict[str, str]:
    """Take from a worker's environment what Ray added and ranks must not inherit.

    What was there when the process was started is a person's: from the node's environment or from
    a runtime_env. What only came later is Ray's.
    """
    return {k: v for k, v in now.items() if k not in OF_RAY or k in initial}


def _initial() -> dict[str, str]:
    with open("/proc/self/environ", "rb") as f:
        pairs = (os.fsdecode(p).partition("=") for p in f.read().split(b"\0"))
        return {name: value for name, _, value in pairs if name}


def _keep(lines: IO[str], tail: deque[str]) -> None:
    for line in lines:
        tail.append(line.rstrip("\n"))


__all__ = ["AgentActor"]
