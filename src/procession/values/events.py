"""Lifecycle events as users see them: in iteration over a group, and in `events.jsonl`."""

from __future__ import annotations

from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    _Facts = dict[str, Any]
else:
    _Facts = dict


class Facts(_Facts):
    """The facts of an event, by name; not to be changed."""

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(frozenset(self))


NO_FACTS = Facts()


class Event(Value):
    """Something that happened to a rank or to the whole group.

    kind: a rank's `spawned`, `spawn_failed`, `cancelled`, `ready`, `reported`, `stop_sent`,
        `kill_sent`, `exited`, `restarting` or `lost`; or the group's new state: `starting`,
        `running`, `stopping`, `sweeping`, `backoff`, `succeeded`, `failed`, `stopped`.
    rank: the rank, None for the group. attempt: which life of the group, from 0.
    at: when it happened, in nanoseconds of the machine's monotonic clock.
    time: the same in seconds since 1970. pid: of the rank. detail: what else is known, in words.
    facts: what else is known, by name, such as `exit_code`; docs/events.md lists what each kind
        has.
    """

    kind: str
    rank: int | None
    attempt: int
    at: int
    time: float
    pid: int | None = None
    detail: str = ""
    facts: Facts = NO_FACTS

    def as_dict(self) -> dict[str, Any]:
        """Give the event as `events.jsonl` holds it: without the fields that say nothing."""
        given = {
            "kind": self.kind,
            "rank": self.rank,
            "attempt": self.attempt,
            "at": self.at,
            "time": round(self.time, 6),
            "pid": self.pid,
            "detail": self.detail,
        }
        known = {k: v for k, v in given.items() if v is not None and v != ""}
        return {**known, **self.facts}
