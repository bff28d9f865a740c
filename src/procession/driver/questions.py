"""Questions of a driver to its node processes, and the answers that come in time.

An answer is one message, `answer`, with the number of its question. Node processes that are gone or
do not answer in time are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from procession.system.eventloop import EventLoop
from procession.system.threads import Latch
from procession.values.base import Record

MARGIN = 0.5  # seconds for answers to come over the network


class _Question(Record):
    """A question that is open. places: the node of each slot that has not answered yet."""

    places: dict[int, int]
    answers: dict[int, Any]
    done: Latch

    def look(self) -> None:
        """Let who asked go on, if all have answered that could."""
        if not self.places:
            self.done.set()


class Questions:
    """Asks node processes. `ask` is for any thread but the loop's, all else for the loop's.

    tell: sends a message to a slot. places: gives the node of each slot that has ranks.
    """

    def __init__(
        self,
        loop: EventLoop,
        tell: Callable[[int, str, dict[str, Any]], None],
        places: Callable[[], Mapping[int, int]],
    ) -> None:
        self._loop = loop
        self._tell = tell
        self._places = places
        self._numbers = itertools.count(1)
        self._open: dict[int, _Question] = {}

    def ask(self, about: str, seconds: float, /, **given: Any) -> dict[int, Any]:
        """Ask all node processes that have ranks; gives their answers by node rank.

        seconds: for node processes to find an answer; it may take a little longer to come.
        """
        question = _Question({}, {}, Latch())
        number = next(self._numbers)

        def begin() -> None:
            question.places.update(self._places())
            self._open[number] = question
            for slot in list(question.places):
                self._tell(slot, "ask", {"id": number, "about": about, **given})
            question.look()

        if self._loop.request(begin):
            question.done.wait(seconds + MARGIN)
            self._loop.request(lambda: self._open.pop(number, None))
        return dict(question.answers)

    def take(self, slot: int, fields: Mapping[str, Any]) -> None:
        """Take an answer. Raises KeyError or ValueError for what is none."""
        number = int(fields["id"])
        question = self._open.get(number)
        if question is not None and slot in question.places:
            question.answers[question.places.pop(slot)] = fields["value"]
            question.look()

    def gone(self, slot: int) -> None:
        """Take note that a slot will not answer any more."""
        for question in self._open.values():
            question.places.pop(slot, None)
            question.look()
