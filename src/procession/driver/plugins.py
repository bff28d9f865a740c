"""Handlers of events that installed packages bring, by the entry points of one group.

PROCESSION_EVENT_HANDLERS names those that are wanted. A launch without it imports nothing for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from procession.driver.journal import complain
from procession.values.errors import SpecError
from procession.values.events import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from typing import Any

GROUP = "procession.event_handlers"
CHOICE = "PROCESSION_EVENT_HANDLERS"

Handler = Callable[[Event], object]
Environment = Callable[[int, int], Mapping[str, str]]


def chosen() -> Sequence[EntryPoint]:
    """Give the entry points that the environment names. Raises SpecError for an unknown name."""
    names = [name.strip() for name in os.environ.get(CHOICE, "").split(",") if name.strip()]
    if not names:
        return ()
    from importlib.metadata import entry_points

    known = {entry.name: entry for entry in entry_points(group=GROUP)}
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        there = ", ".join(sorted(known)) or "none"
        raise SpecError(f"{CHOICE}: no package has a handler {unknown!r}; installed: {there}")
    return [known[name] for name in names]


def handlers_of(
    entries: Sequence[EntryPoint], describe: Callable[[], Any], on_event: Handler | None
) -> list[Handler]:
    """Make the handlers of a group; what they raise is logged.

    entries: those that are wanted. describe: gives what `run.json` holds. on_event: the caller's.
    """
    found = [on_event] if on_event is not None else []
    for entry in entries:
        try:
            handler = entry.load()(describe())
        except Exception as e:
            complain(entry.value, e)
        else:
            if handler is not None:
                found.append(handler)
    return found


def harmless_environment(handler: object, give: Environment) -> Environment:
    """Wrap `give`: where it raises, that is logged, and there are no variables.

    give: `handler.environment`: for an attempt and a rank, variables for that rank.
    """
    faulty = False

    def given(attempt: int, rank: int) -> Mapping[str, str]:
        nonlocal faulty
        try:
            return {str(name): str(value) for name, value in give(attempt, rank).items()}
        except Exception as e:
            if not faulty:
                complain(handler, e)
            faulty = True
            return {}

    return given
