"""A group as it is seen at one moment: its `look()`, with rates, and what its ranks use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from procession.values.base import Value
from procession.view.pace import Pace

GONE = ("EXITED", "LOST")


class Usage(Value):
    """What a rank uses, with its children. cpu: percent of one core. memory, gpu: bytes."""

    cpu: float | None = None
    memory: int | None = None
    gpu: int | None = None


class Seen(Value):
    """A rank. rank: its number in the job. quiet: seconds since its last beat, None: none yet."""

    rank: int
    state: str
    exit: str = ""
    ended: str = ""
    failed: bool = False
    step: float | None = None
    total: float | None = None
    rate: float | None = None
    quiet: float | None = None
    usage: Usage = Usage()
    fields: Mapping[str, float | str] | None = None
    last_line: str = ""

    @property
    def gone(self) -> bool:
        """Whether it has no process any more."""
        return self.state in GONE

    @property
    def left(self) -> float | None:
        """Seconds until it has done all its steps, as it goes now."""
        if self.step is None or not self.total or not self.rate or self.gone:
            return None
        return max(0.0, (self.total - self.step) / self.rate)

    @property
    def share(self) -> float | None:
        """How much of its steps it has done, from 0 to 1."""
        if self.step is None or not self.total or self.total < 0:
            return None
        return min(1.0, max(0.0, self.step / self.total))


class Whole(Value):
    """The group. seconds: since it began. to_kill: seconds to SIGKILL, None: not ending."""

    name: str
    state: str
    attempt: int
    restarts: int
    seconds: float
    ranks: tuple[Seen, ...]
    cause: str = ""
    to_kill: float | None = None

    @property
    def slowest(self) -> Seen | None:
        """Of the ranks that work, the one furthest behind; None if no rank reports steps."""
        stepping = [r for r in self.ranks if r.step is not None]
        working = [r for r in stepping if not r.gone]
        return min(
            working or stepping,
            key=lambda r: (1.0 if r.share is None else r.share, r.step or 0.0, r.rank),
            default=None,
        )


def see(
    look: Mapping[str, Any], now: float, pace: Pace, usage: Mapping[int, Usage] | None = None
) -> Whole:
    """Put together what is seen. now: seconds since 1970. usage: by local rank."""
    first = look["first"]
    ranks: list[Seen] = []
    for rank in look["ranks"]:
        local, at = rank["rank"], rank["beat_at"]
        step, total = _finite(rank["step"]), _finite(rank["total"])
        pace.take(local, at, step)
        ranks.append(
            Seen(
                rank=first + local,
                state=rank["state"],
                exit=rank["exit"] or "",
                ended=rank.get("ended") or "",
                failed=bool(rank.get("failed")),
                step=step,
                total=total,
                rate=pace.rate(local, now),
                quiet=None if at is None else max(0.0, now - at),
                usage=(usage or {}).get(local, Usage()),
                fields=rank["fields"],
                last_line=rank.get("last_line") or "",
            )
        )
    kill_at = look.get("kill_at")
    return Whole(
        name=look["name"],
        state=look["state"],
        attempt=look["attempt"],
        restarts=look["restarts"],
        seconds=max(0.0, now - look["began"]),
        ranks=tuple(ranks),
        cause=look.get("cause") or "",
        to_kill=None if kill_at is None else max(0.0, kill_at - now),
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
