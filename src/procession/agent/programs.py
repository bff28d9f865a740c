"""Starting ranks that are programs without a copy of the agent, where that can be done.

What `worker.setup` does in a forked rank, the agent does once for all of them: it changes its
own directory and umask to theirs while it starts them. Some ranks are forked nevertheless, because
they cannot be started in this way, or because the failure must be explained: where a name stands
for no file, a directory does not exist, variables are invalid, or a placement
must be set before the program starts.
"""

from __future__ import annotations

import os
import time

from procession.system import plain as signal
from procession.system.vfork import Chain
from procession.values.base import Record
from procession.worker.setup import IGNORED_BY_PYTHON, STREAMS

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Job = dict[str, Any]

ALL_SIGNALS = signal.valid_signals()


class StartedProgram(Record):
    """A program that was started: its process, when, the errno of its exec (or 0), its path."""

    pid: int
    at: int
    fault: int
    path: str


class Programs:
    """Starts programs. handlers: those that ranks shall have. mask: the signals blocked in them."""

    def __init__(self, handlers: dict[int, Any], mask: Iterable[int]) -> None:
        kept = {n: int(h == signal.SIG_IGN) for n, h in handlers.items()}  # exec resets the others
        self._handlers = {**kept, **{int(n): 0 for n in IGNORED_BY_PYTHON}}
        self._mask = mask
        self._chain: Chain | None = None
        self._tried = False
        self._inside = False  # in the directory of ranks
        self._common: Job | None = None  # which the following is made of
        self._variables: dict[str, bytes] = {}

    def start(self, common: Job, job: Job, fds: list[int]) -> StartedProgram | None:
        """Start the program of a job; None if it must be forked.

        Raises OSError if there is no process.
        """
        path = self._prepare(common, job) if "place" not in job else None
        if path is None:
            return None
        argv = [os.fsencode(word) for word in job["argv"]]
        variables = self._variables
        own: dict[str, str | None] = job["env"]
        if own:
            variables = variables.copy()
            for name, value in own.items():
                if value is None:
                    variables.pop(name, None)
                else:
                    variables[name] = os.fsencode(f"{name}={value}")
        env = list(variables.values())
        if any(b"\0" in text for text in (*argv, *(variables[n] for n in own if n in variables))):
            return None
        roles: dict[str, int] = job["fds"]
        streams = tuple(fds[roles[role]] for role in STREAMS)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ALL_SIGNALS)
        try:
            if not self._tried:
                self._tried = True
                self._chain = Chain.make(self._handlers, self._mask)
            if self._chain is None:
                return None
            at = time.monotonic_ns()  # before: it may run, and end, before we go on here
            pid, fault = self._chain.start(path, argv, env, streams)
            return StartedProgram(pid, at, fault, path)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _prepare(self, common: Job, job: Job) -> str | None:
        """Put directory and umask in place, and find the program there."""
        if self._tried and self._chain is None:
            return None
        try:
            if not self._inside:
                os.chdir(common["cwd"])
                os.umask(common["umask"])
                self._inside = True
            if common is not self._common:
                self._variables = {n: os.fsencode(f"{n}={v}") for n, v in common["env"].items()}
                self._common = common
            if any(not name or "=" in name for name in job["env"]):
                return None
            own: dict[str, str | None] = job["env"]
            return self._found(job["argv"][0], own.get("PATH", common["env"].get("PATH")))
        except (OSError, ValueError):
            return None

    @staticmethod
    def _found(name: str, path: str | None) -> str | None:
        if "/" in name or not name:
            return name or None
        for place in (os.defpath if path is None else path).split(os.pathsep):
            each = os.path.join(place, name)
            if os.access(each, os.X_OK) and os.path.isfile(each):
                return each
        return None

    def done(self) -> None:
        """Leave the directory of ranks, when all were started."""
        if self._inside:
            self._inside = False
            os.chdir("/")

    def forget(self) -> None:
        """Keep nothing of the group that is over: neither its variables nor its arguments."""
        self.done()
        self.close()
        self._chain, self._tried, self._common, self._variables = None, False, None, {}

    def close(self) -> None:
        """Close its own descriptors, in a rank that does not exec."""
        if self._chain is not None:
            self._chain.close()
