"""What goes into the lifecycle (events), and what it asks for (actions)."""

from __future__ import annotations

from procession.rules.tables import DeadlineKind, Phase, WorkerEvent
from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# -- events


class RankEvent(Value):
    """Something happened to a rank.

    at: when it happened, in nanoseconds of the machine's monotonic clock. ok: whether its report or
    exit is a good one. again: of the exit of a single rank: if it failed, it is to start again.
    """

    kind: WorkerEvent
    rank: int
    at: int = 0
    ok: bool = True
    again: bool = False


class Deadline(Value):
    """A deadline of an attempt has passed, at this time of the monotonic clock.

    rank: whose deadline and attempt it is; -1: the whole group's.
    """

    kind: DeadlineKind
    attempt: int
    at: int = 0
    rank: int = -1


class StopWanted(Value):
    """Somebody wants the group to end.

    kill: at once, by SIGKILL. hurry: the caller has another stop signal, or less time: if the group
    is being ended already, send the stop signal again and let the grace period begin anew.
    notice: let ranks end by themselves first, if all have reached their program.
    """

    kill: bool = False
    hurry: bool = False
    notice: bool = False


class Swept(Value):
    """Nothing that the ranks of this attempt started is left."""

    attempt: int


Event = RankEvent | Deadline | StopWanted | Swept


def plain(event: Event) -> tuple[Any, ...]:
    """Give an event in plain values, for another process; `event_of` reads them."""
    first, *others = (getattr(event, name) for name in event.__match_args__)
    named = isinstance(event, (RankEvent, Deadline))
    return (type(event).__name__, first.name if named else first, *others)


def event_of(words: Sequence[Any]) -> Event:
    """Read what `plain` has written."""
    kind, first, *others = words
    if kind == "RankEvent":
        return RankEvent(WorkerEvent[first], *others)
    if kind == "Deadline":
        return Deadline(DeadlineKind[first], *others)
    return StopWanted(first, *others) if kind == "StopWanted" else Swept(first, *others)


# -- actions


class Spawn(Value):
    """Start the processes of this attempt: of all ranks, or of one that starts again."""

    attempt: int
    rank: int | None = None


class Cancel(Value):
    """Start none of the processes that do not exist yet, and report which those are."""


class Signal(Value):
    """Send the stop signal (or SIGKILL) to these ranks, and report when it was sent."""

    ranks: tuple[int, ...]
    kill: bool = False


class Sweep(Value):
    """End what the ranks left behind: by the stop signal, or at once by SIGKILL."""

    kill: bool = False


class Arm(Value):
    """Report this deadline when its time has passed; it replaces one of the same kind and rank."""

    deadline: Deadline


class End(Value):
    """The group has ended."""

    phase: Phase


Action = Spawn | Cancel | Signal | Sweep | Arm | End
