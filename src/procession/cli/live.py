"""`--live` and `--status`: what is shown of a group while it runs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from procession.cli.request import Request
from procession.cli.say import say_note
from procession.cli.signals import handled, suspended
from procession.group.group import Group
from procession.output.console import Console
from procession.rules.tables import Phase
from procession.values.events import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.view.live import View

EVERY = 60.0  # seconds between two lines of status, where --live finds no terminal
END = {Phase.SUCCEEDED.name.lower(), Phase.FAILED.name.lower(), Phase.STOPPED.name.lower()}


@contextmanager
def shown(group: Group, request: Request) -> Generator[None]:
    """Show a group of this machine while the block runs it."""
    console, why = find_terminal() if request.live else (None, "")
    every = request.status
    if why:
        every = every or EVERY
        say_note(f"no live view: {why}; a line of status comes every {every:g} s [P413]")
    with ExitStack() as open_:
        if console is not None:
            open_.callback(console.close)
        group.resources.streams.lead_through(console)
        open_.enter_context(told(group, every))
        if console is None:
            open_.enter_context(suspended(group))
        else:
            view = open_.enter_context(
                viewing(group.look, console, group.say, group.driver.request_suspension)
            )

            def hear(event: Event) -> None:
                if event.rank is None and event.kind in END:
                    view.remember()

            group.hear(hear)
        yield


def told(group: Group, every: float | None) -> AbstractContextManager[None]:
    """Say how a group is while the block runs it. every: seconds between two lines, or None."""
    if every is None:
        return nullcontext()
    from procession.view.live import status_lines

    return status_lines(group.look, group.say, every)


def find_terminal() -> tuple[Console | None, str]:
    """Give the terminal that shows both streams; or None, and why there is none."""
    for name, stream in (("output", sys.stdout), ("error", sys.stderr)):
        if stream is None or not stream.isatty():
            return None, f"the standard {name} is no terminal"
    if os.environ.get("TERM", "dumb") == "dumb":
        return None, "the terminal cannot move its cursor (TERM=dumb)"
    return Console(sys.stdout), ""


@contextmanager
def viewing(
    look: Callable[[], Mapping[str, Any]],
    console: Console,
    say: Callable[[str], None],
    suspend: Callable[[], None],
) -> Generator[View]:
    """Show a group on a terminal while the block runs; in the main thread, for its signals.

    look: see `View`. console: from `find_terminal`; all that is written to the terminal meanwhile
    should go through it. say: takes a line, without its newline, if the view fails. suspend: has
    this process stopped, with what belongs to it (Ctrl-Z).
    """
    from procession.view.live import View

    def crashed(e: Exception) -> None:
        what = (str(e).splitlines() or [""])[0]
        failed = f"the live view failed and is gone ({type(e).__name__}: {what})"
        say(f"procession: {failed}; the group goes on [P413]")

    view = View(look, console, on_crash=crashed)

    def stop(*_: object) -> None:
        view.hide()
        suspend()

    handlers: dict[int, Callable[..., None]] = {
        signal.SIGWINCH: lambda *_: view.wake(),
        signal.SIGTSTP: stop,
        signal.SIGCONT: lambda *_: view.unhide(),
    }
    with handled(handlers):
        try:
            view.start()
            yield view
        finally:
            view.close()
