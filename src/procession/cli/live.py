"""`--live` and `--status`: what is shown of a group while it runs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

from procession.cli.request import Request
from procession.cli.say import say_note
from procession.cli.signals import handled, suspended
from procession.group.group import Group
from procession.output.console import Console
from procession.rules.tables import Phase
from procession.values.events import Event

EVERY = 60.0  # seconds between two lines of status, where --live finds no terminal
END = {Phase.SUCCEEDED.name.lower(), Phase.FAILED.name.lower(), Phase.STOPPED.name.lower()}


@contextmanager
def shown(group: Group, request: Request) -> Generator[None]:
    """Show a group of this machine while the block runs it."""
    why = why_no_terminal() if request.live else ""
    every = request.status
    if why:
        every = every or EVERY
        say_note(f"no live view: {why}; a line of status comes every {every:g} s [P413]")
    viewed = request.live and not why
    with closing(Console(sys.stdout)) if viewed else nullcontext() as console:
        group.resources.streams.lead_through(console)
        with told(group, every), _viewed(group, console) if console else suspended(group):
            yield


def told(group: Group, every: float | None) -> AbstractContextManager[None]:
    """Say how a group is while the block runs it. every: seconds between two lines, or None."""
    if every is None:
        return nullcontext()
    from procession.view.live import status_lines

    return status_lines(group.look, group.say, every)


def why_no_terminal() -> str:
    """Say why there is no terminal that shows both streams, "" if there is one."""
    for name, stream in (("output", sys.stdout), ("error", sys.stderr)):
        if stream is None or not stream.isatty():
            return f"the standard {name} is no terminal"
    if os.environ.get("TERM", "dumb") == "dumb":
        return "the terminal cannot move its cursor (TERM=dumb)"
    return ""


@contextmanager
def _viewed(group: Group, console: Console) -> Generator[None]:
    """Show a group on a terminal while the block runs; in the main thread, for its signals.

    console: all that is written to the terminal meanwhile goes through it.
    """
    from procession.view.live import View

    def crashed(e: Exception) -> None:
        what = (str(e).splitlines() or [""])[0]
        failed = f"the live view failed and is gone ({type(e).__name__}: {what})"
        group.say(f"procession: {failed}; the group goes on [P413]")

    view = View(group.look, console, on_crash=crashed)

    def stop(*_: object) -> None:
        view.hide()
        group.driver.request_suspension()

    def hear(event: Event) -> None:
        if event.rank is None and event.kind in END:
            view.remember()

    group.hear(hear)
    handlers: dict[int, Callable[..., None]] = {
        signal.SIGWINCH: lambda *_: view.wake(),
        signal.SIGTSTP: stop,
        signal.SIGCONT: lambda *_: view.unhide(),
    }
    with handled(handlers):
        try:
            view.start()
            yield
        finally:
            view.close()
