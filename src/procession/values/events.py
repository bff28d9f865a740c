"""Lifecycle events as users see them: in iteration over a group, and in `events.jsonl`."""

from __future__ import annotations

from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

NO_FACTS: dict[str, Any] = {}


class Event(Value):
    """Something that happened to a rank or to the whole group.

    kind: a rank's `spawned`, `spawn_failed`, `cancelled`, `ready`, `reported`, `stop_sent`,
        `kill_sent`, `exited`, `restarting`, `hung` or `lost`; or the group's new state: `starting`,
        `running`, `stopping`, `sweeping`, `backoff`, `succeeded`, `failed`, `stopped`.
    rank: the rank, None for the group. attempt: which life of the group, from 0.
    at: when it happened, in nanoseconds of the machine's monotonic clock.
    time: the same in seconds since 1970. pid: of the rank. detail: what else is known, in words.
    facts: what else is known, by name, such as `exit_code`; docs/reference/events.md lists what
        each kind has. It is not to be changed.
    """

    kind: str
    rank: int | None
    attempt: int
    at: int
    time: float
    pid: int | None = None
    detail: str = ""
    facts: Mapping[str, Any] = NO_FACTS

    def as_dict(self) -> dict[str, Any]:
        """Give the event as `events.jsonl` holds it: without the fields that say nothing."""
        fields = {name: getattr(self, name) for name in self.__match_args__ if name != "facts"}
        known = {k: v for k, v in fields.items() if v is not None and v != ""}
        return {**known, "time": round(self.time, 6), **self.facts}
