"""An actor of Ray that starts one node process, and watches it.

It runs in a worker process of Ray, on any node, and imports the standard library only. The node
process is a process of its own, not the actor itself: it has a main thread, signals and children of
its own, which Ray needs in its workers. It cannot outlive its actor: it ends with its standard
input, whose other end the actor holds.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO, Any

from procession.agent.boot import own_python_here
from procession.engines.contract import COPIED, ON_STDIN, SLOT

TAIL = 20  # last lines of the node process's output that are kept
# Variables that Ray adds to the environment of its workers, and that are not for ranks.
# OMP_NUM_THREADS would be the number of CPUs of all ranks of the node.
OF_RAY = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT")


class NodeActor:
    """Holds the node process of one slot."""

    def where(self) -> str:
        """Give the name of this machine; the answer also shows that the actor runs."""
        return socket.gethostname()

    def run(
        self, slot: int, argv: Sequence[str], env: Mapping[str, str], directory: str
    ) -> tuple[str, int, list[str]]:
        """Run a node process to its end; gives its machine, its exit status and its last lines.

        directory: the driver's, of which Ray may have made a copy here (`working_dir`).
        """
        around = as_started(dict(os.environ), _initial())
        around |= {**env, SLOT: str(slot), ON_STDIN: "1"}
        if _has_own_directory():
            around[COPIED] = directory
        # Ray's workers have SIGINT blocked, and what they start would, too.
        blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            process = subprocess.Popen(
                own_python_here(argv),
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
        assert process.stdout is not None
        tail: deque[str] = deque(maxlen=TAIL)
        reader = threading.Thread(target=_keep, args=(process.stdout, tail), daemon=True)
        reader.start()
        status = process.wait()
        reader.join(1)  # whom it started may hold the pipe for longer
        return socket.gethostname(), status, list(tail)


def as_started(now: dict[str, str], initial: Mapping[str, str]) -> dict[str, str]:
    """Take from a worker's environment what Ray added and ranks must not inherit.

    Variables that were there when the process was started come from people: from the node's
    environment or a runtime_env. Those that came later are Ray's.
    """
    return {k: v for k, v in now.items() if k not in OF_RAY or k in initial}


def _initial() -> dict[str, str]:
    with open("/proc/self/environ", "rb") as f:
        pairs = (os.fsdecode(p).partition("=") for p in f.read().split(b"\0"))
        return {name: value for name, _, value in pairs if name}


def _has_own_directory() -> bool:
    """Tell whether a runtime_env's working_dir is there, in which Ray has started this worker."""
    ray: Any = importlib.import_module("ray")
    context: Any = ray.get_runtime_context()
    return bool(context.runtime_env.get("working_dir"))


def _keep(lines: IO[str], tail: deque[str]) -> None:
    for line in lines:
        tail.append(line.rstrip("\n"))
