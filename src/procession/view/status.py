"""A line now and then, for logs, that says how a group is doing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from procession.values import figures
from procession.values.ranks import short_ranks
from procession.view.phrases import counted, plain, step_of, used
from procession.view.rows import ODDITIES, oddities
from procession.view.seen import Whole
from procession.view.sight import Sight


class Status:
    """Says a line every so many seconds, from a thread of its own, until `close`.

    look: as for `View`. say: takes the line, without its newline.
    """

    def __init__(
        self, look: Callable[[], Mapping[str, Any]], say: Callable[[str], None], every: float
    ) -> None:
        self._sight = Sight(look)
        self._say = say
        self._every = every
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="procession-status", daemon=True)

    @property
    def started(self) -> bool:
        """Whether it has begun."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Begin; the first line comes after the first interval."""
        self._thread.start()

    def close(self) -> None:
        """Say no more."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(1.0)
        self._sight.close()

    def _run(self) -> None:
        try:
            self._sight.see()  # the beginning of rates
            while not self._closing.wait(self._every):
                self._say(status_line(self._sight.see(), time.strftime("%H:%M")))
        except Exception as e:
            self._say(f"procession: the status line failed ({type(e).__name__}: {e}) [P413]")


def status_line(whole: Whole, clock: str) -> str:
    """Say in one line how a group is doing. clock: the time of day."""
    attempt = f", attempt {whole.attempt}" if whole.attempt or whole.restarts else ""
    doing = whole.state.lower()
    line = f"procession: {clock} {doing} for {figures.roughly(whole.seconds)}{attempt}: "
    line += ", ".join([f"{counted(whole)}", *_progress(whole), *_odd(whole)])
    if whole.cause:
        line += f"; {plain(whole.cause)}"
    use = ", ".join(used(whole))
    return line + (f"; {use}" if use else "")


def _progress(whole: Whole) -> list[str]:
    slowest = whole.slowest
    if slowest is None:
        return []
    working = [r for r in whole.ranks if not r.gone] or whole.ranks
    said = f"step {step_of(working).replace('/', ' of ')}"
    more: list[str] = []
    if slowest.rate is not None:
        more.append(figures.rate(slowest.rate))
    if slowest.left is not None:
        more.append(f"{figures.roughly(slowest.left)} left")
    if more:
        said += f" ({', '.join(more)})"
    differ = len({r.step for r in working}) > 1
    return [said, *([f"slowest rank {slowest.rank}"] if differ else [])]


def _odd(whole: Whole) -> list[str]:
    """Name the odd ranks, without the slow ones: the slowest is named anyway."""
    why = oddities(whole.ranks)
    said: list[str] = []
    for kind in ODDITIES:
        ranks = [rank for rank, odd in why.items() if odd == kind]
        if ranks and kind != "slow":
            called = {"memory": "much memory"}.get(kind, kind)
            said.append(f"{called}: {short_ranks(ranks)}")
    return said
