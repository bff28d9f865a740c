"""The ranks of a machine as they are now, as plain data that can be sent over a socket."""

from __future__ import annotations

import time

from procession.machine.machine import Machine
from procession.system.eventloop import EventLoop
from procession.system.threads import Latch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.agent.stacks import Taken

LINE = 300  # characters of a last line
MARGIN = 0.5  # seconds more for an answer


def ranks_of(machine: Machine) -> list[dict[str, Any]]:
    """Describe the ranks, in their order; from any thread. Keys: see `Group.look`."""
    from procession.output.text import harmless, uncoloured

    offset = time.time() - time.monotonic()
    resources = machine.resources
    ranks: list[dict[str, Any]] = []
    for record, rank in zip(list(machine.records), list(machine.life.ranks), strict=False):
        beat = resources.board.beat(record.rank)
        line = resources.streams.last_line(record.attempt, record.rank)
        ranks.append(
            {
                "rank": record.rank,
                "pid": record.pid,
                "state": rank.state.name,
                "started_at": record.started_at / 1e9 + offset if record.started_at else None,
                "exit": str(record.exit) if record.exited_at else None,
                "ended": rank.ended.name if rank.ended is not None else None,
                "failed": rank.failed_at is not None,
                "last_line": uncoloured(harmless(line)).decode(errors="replace")[:LINE],
                "beats": beat.beats if beat else 0,
                "beat_at": beat.at / 1e9 + offset if beat else None,
                "step": beat.step if beat else None,
                "total": beat.total if beat else None,
                "fields": beat.fields if beat else {},
            }
        )
    return ranks


def kill_at(machine: Machine) -> float | None:
    """Say when ranks that are being ended get SIGKILL, in seconds since 1970."""
    at = machine.kill_at
    return at + time.time() - time.monotonic() if at is not None else None


def stacks_of(
    machine: Machine, loop: EventLoop, seconds: float, *, native: bool
) -> list[dict[str, Any]]:
    """Say where the ranks are, as plain data; from any thread but that of the loop.

    seconds: that they have to answer; py-spy has as long for those that do not. native: it looks
    at all.
    """
    answered = Latch()
    seen: list[Taken] = []

    def done(taken: list[Taken]) -> None:
        seen.extend(taken)
        answered.set()

    loop.request(lambda: machine.last_look.ask_for_stacks(seconds, done), certain=True)
    answered.wait(seconds + MARGIN)
    from procession.explain.stacks.outside import look_from_outside
    from procession.explain.stacks.text import stack_of

    stacks = [stack_of(t.rank, t.pid, t.state, t.letter, t.text) for t in list(seen)]
    return [stack.as_dict() for stack in look_from_outside(stacks, seconds, native=native)]
