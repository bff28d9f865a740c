"""`procession run --detach`: a fork of this command goes on as the launcher, without the terminal.

This process waits until the group has started, or has failed to start, and then ends. It reads a
pipe, to which the launcher writes one message: that the group has started, or how it ended before
that. The group does not depend on it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

from procession.agent.boot import end_early
from procession.cli.say import say_line, say_note, say_out
from procession.explain.report import format_report
from procession.group.group import Group
from procession.output.wiring import Output, output_of
from procession.values.events import Event
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONSOLE = "console.log"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def detach() -> Waiter | int:
    """Fork: in the launcher, give who waits for it; in this process, the exit code, when it knows.

    To be called before anything is started for the run.
    """
    end_early()
    read_end, write_end = os.pipe()
    launcher = os.fork()
    if launcher:
        os.close(write_end)
        return _wait(launcher, read_end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd != write_end:  # others may wait until those of the shell are closed
            with suppress(OSError):
                os.close(fd)
    return Waiter(write_end)


def _wait(launcher: int, read_end: int) -> int:
    """Wait for the message of the launcher, and say how it went; gives the exit code."""
    try:
        with open(read_end, "rb") as f:
            heard = f.read()
    except KeyboardInterrupt:
        os.kill(launcher, signal.SIGTERM)
        os.waitpid(launcher, 0)
        raise
    if not heard:  # it has printed what was wrong, or was killed
        code = os.waitstatus_to_exitcode(os.waitpid(launcher, 0)[1])
        if code < 0:
            say_note(f"the launcher was killed by signal {-code} [P313]")
        return 128 - code if code < 0 else code or 1
    told: dict[str, Any] = json.loads(heard)
    if told.get("said"):
        say_line(told["said"])
    if told.get("code"):
        return int(told["code"])
    run = told["run"]
    say_out(f"{run}")
    say_note(f"{run} continues without this terminal, in {told['dir']}")
    say_note(f"return with `procession attach {run}`; stop with `procession stop {run}`")
    return 0


class Waiter:
    """The process that waits for this launcher. Used in the thread of the driver."""

    def __init__(self, fd: int) -> None:
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
        output = output_of(spec)
        fd = os.open(os.path.join(output.files.path, CONSOLE), _FLAGS, 0o600)
        terminal = [os.dup(1), os.dup(2)]
        try:
            _direct(fd, fd)
            yield output
        except BaseException:
            _direct(*terminal)
            raise
        finally:
            for each in (fd, *terminal):
                os.close(each)

    def _send(self, what: dict[str, object]) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):  # the process that waited has ended
                os.write(fd, json.dumps(what).encode())
            os.close(fd)


def _direct(out: int, err: int) -> None:
    """Send what is written to the standard streams there."""
    for stream, number, fd in ((sys.stdout, 1, out), (sys.stderr, 2, err)):
        stream.flush()
        os.dup2(fd, number)
