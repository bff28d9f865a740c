"""Ranks that stop for a debugger get the terminal of the command, or a line says how to reach them.

The prompt is `procession debug`, a process of its own on this terminal, as from any other one.
Meanwhile the output of ranks waits, and Ctrl-C is for the prompt.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable

from procession.agent.boot import own_python
from procession.group.group import Group
from procession.rules.tables import Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

    from procession.cli.signals import RunSignals


class Debugger:
    """Sees to ranks of a run that stop. say: writes a line."""

    def __init__(self, run: Group, signals: RunSignals, say: Callable[[str], object]) -> None:
        self._run, self._driver = run, run.driver
        self._signals, self._say = signals, say
        self._here = not signals.asked.live and all(map(os.isatty, range(3)))
        self._prompt: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._driver.told_stop = self._changed
        if signals.asked.debug is False:
            self._driver.undebugged = "--no-debug was given"

    def _changed(self, rank: int | None) -> None:
        stopped = self._driver.debugged.stopped
        left = rank is None
        if left and stopped and self._run.state in (Phase.STARTING, Phase.RUNNING):
            rank = next(iter(stopped))
        if self._prompt is not None and not stopped:
            # It leaves by itself, unless it waits for a line.
            self._driver.loop.after(self, 0.5, self._prompt.terminate)
        if self._prompt is not None or rank not in stopped or self._driver.debugged.listeners:
            return
        if self._here:
            self._open_prompt()
        else:
            self._say_where([*stopped] if left else [rank])

    def _say_where(self, ranks: Iterable[int]) -> None:
        for rank in ranks:
            self._say(self._driver.debugged.where(rank, self._driver.run_id))

    def _open_prompt(self) -> None:
        import subprocess  # takes 3 ms to import, and few runs need it

        self._driver.display.hold(held=True)
        self._signals.prompting = True
        words = own_python("procession.cli:command", "debug", self._driver.run_id, "--here")
        self._prompt = subprocess.Popen(words)
        self._pidfd = os.pidfd_open(self._prompt.pid)
        self._driver.loop.watch(self._pidfd, self._prompt_ended)

    def close(self) -> None:
        """End the prompt, if there is one: the run is over."""
        if self._prompt is not None:
            self._prompt.terminate()
            self._close_prompt()

    def _prompt_ended(self) -> None:
        """Go on without a prompt, or with another one: a rank may have stopped meanwhile."""
        self._driver.loop.cancel(self)
        self._driver.loop.forget(self._pidfd)
        if self._close_prompt() in (0, -signal.SIGTERM):  # by us, if it takes its time
            self._changed(None)
        else:
            self._say_where(self._driver.debugged.stopped)

    def _close_prompt(self) -> int:
        assert self._prompt is not None
        code = self._prompt.wait()
        os.close(self._pidfd)
        self._prompt, self._signals.prompting = None, False
        self._driver.display.hold(held=False)
        return code
