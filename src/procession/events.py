"""Lifecycle events as users see them: in iteration over a group, and in `events.jsonl`."""

from __future__ import annotations

from procession.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Event(Value):
    """Something that happened to a rank or to the whole group.

    kind: a rank's `spawned`, `spawn_failed`, `cancelled`, `ready`, `reported`, `stop_sent`,
        `kill_sent`, `exited`, `restarting` or `lost`; or the group's new state: `starting`,
        `running`, `stopping`, `sweeping`, `backoff`, `succeeded`, `failed`, `stopped`.
    rank: the rank, None for the group. attempt: which life of the group, from 0.
    at: when it happened, in nanoseconds of the machine's monotonic clock.
    time: the same in seconds since 1970. pid: of the rank. detail: what else is known, in words.
    """

    kind: str
    rank: int | None
    attempt: int
    at: int
    time: float
    pid: int | None = None
    detail: str = ""

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
        return {k: v for k, v in given.items() if v is not None and v != ""}
