"""`procession run --detach`, in the launcher that goes on: its streams, and who waits for it.

The process that gives the terminal back waits at a pipe, whose descriptor stands in the environment
of this one. It is told once: that the group has started, or how it ended before that.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from procession.cli import TOLD
from procession.cli.settings import Settings
from procession.control.place import state_directory
from procession.errors import SpecError
from procession.events import Event
from procession.group import Group
from procession.output.plan import Output
from procession.policy import Logs
from procession.report import format_report
from procession.spawner import planned_output
from procession.spec import Spec

CONSOLE = "console.log"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Told:
    """Who waits for this launcher. Used in the thread of the supervisor."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._fd = fd

    def watch(self, group: Group) -> None:
        """Tell when the group has started, or ended before."""

        def take(event: Event) -> None:
            if event.kind == "running":
                self._tell({"run": group.run_id, "dir": group.run_dir})

        group.subscribe(take)

    def end(self, code: int, group: Group) -> None:
        """Tell how it ended, if nothing was told before."""
        said = format_report(group.end) if group.end is not None and group.end.failures else ""
        self._tell({"run": group.run_id, "dir": group.run_dir, "code": code, "said": said})

    @contextmanager
    def settled(self, spec: Spec) -> Generator[Output]:
        """Lead our streams to the console log in the run's directory, from now on.

        If the block raises, they lead again to the terminal, on which that is to be said. Raises
        OSError.
        """
        os.makedirs(str(spec.logs.dir), 0o700, exist_ok=True)
        output = planned_output(spec)
        fd = os.open(os.path.join(output.files.path, CONSOLE), _FLAGS, 0o600)
        streams = ((sys.stdout, 1), (sys.stderr, 2))
        terminal = [os.dup(number) for _, number in streams]
        try:
            for stream, number in streams:
                stream.flush()
                os.dup2(fd, number)
            yield output
        except BaseException:
            for before, (stream, number) in zip(terminal, streams, strict=True):
                stream.flush()
                os.dup2(before, number)
            raise
        finally:
            for each in (fd, *terminal):
                os.close(each)

    def _tell(self, what: dict[str, object]) -> None:
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            os.write(fd, json.dumps(what).encode())
        except OSError:
            pass  # nobody waits any more
        os.close(fd)


def taken() -> Told | None:
    """Give who waits for this launcher, None in the process that is still to give way."""
    text = os.environ.pop(TOLD, "")
    return Told(int(text)) if text.isdecimal() else None


def check_detached(s: Settings, logs: Logs) -> Logs:
    """See that a run can be detached; gives its logs, which always have a directory.

    Raises SpecError.
    """
    for other in ("json", "logs_specs"):
        if s.said(other):
            hint = "; see result.json in the run's directory" if other == "json" else ""
            raise SpecError(f"--detach and {s.where(other)} cannot go together{hint}")
    if s.on_command_line("stdin") and s.text("stdin") != "none":
        raise SpecError("--detach and --stdin cannot go together: there is no terminal to read")
    if logs.dir is not None:
        return logs
    return logs.__replace__(dir=os.path.join(state_directory(), "runs"))


__all__ = ["CONSOLE", "Told", "check_detached", "taken"]
