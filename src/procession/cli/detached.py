"""`procession run --detach`, in the launcher that goes on: its streams, and the process that waits.

The process that gives the terminal back reads a pipe, whose descriptor is in the environment of
this one. One message is written to it: that the group has started, or how it ended before that.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from procession.cli.process import TOLD
from procession.explain.report import format_report
from procession.group.group import Group
from procession.output.wiring import Output
from procession.prepare.resources import planned_output
from procession.values.events import Event
from procession.values.spec import Spec

CONSOLE = "console.log"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Waiter:
    """The process that waits for this launcher. Used in the thread of the supervisor."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._fd = fd

    def watch(self, group: Group) -> None:
        """Send a message when the group has started."""

        def take(event: Event) -> None:
            if event.kind == "running":
                self._send({"run": group.run_id, "dir": group.run_dir})

        group.hear(take)

    def end(self, code: int, group: Group) -> None:
        """Send a message about the end, if none was sent before."""
        said = format_report(group.end) if group.end is not None and group.end.failures else ""
        self._send({"run": group.run_id, "dir": group.run_dir, "code": code, "said": said})

    @contextmanager
    def settled(self, spec: Spec) -> Generator[Output]:
        """Send our output to the console log in the run's directory, from now on.

        If the block raises, output goes to the terminal again, so that the error is seen there.
        Raises OSError.
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

    def _send(self, what: dict[str, object]) -> None:
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            os.write(fd, json.dumps(what).encode())
        except OSError:
            pass  # the process that waited has ended
        os.close(fd)


def take_waiter() -> Waiter | None:
    """Give who waits for this launcher, and take it out of the environment; None if nobody does."""
    fd = os.environ.pop(TOLD, "")
    return Waiter(int(fd)) if fd.isdecimal() else None
