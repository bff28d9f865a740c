"""What is seen of a running group from outside, as plain data that also a socket can carry."""

from __future__ import annotations

import os
import time

from procession.ends import rank_end
from procession.report import what_happened
from procession.spawner import Spawner
from procession.spec import Spec, words_of
from procession.supervisor import Supervisor
from procession.system.latch import Latch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.stacks.taking import Taken

LINE = 300  # characters of a last line
MARGIN = 0.5  # seconds for the supervisor to answer


def look_at(spec: Spec, supervisor: Supervisor, spawner: Spawner) -> dict[str, Any]:
    """Describe a group as it is now; from any thread.

    Keys: name, run (its id), run_dir ("" for none), words (its command line, or its function),
    launcher (pid), nproc, node, nodes, first (the number that rank 0 has in the whole job), state
    (of `Phase`), attempt, restarts (the most), began (seconds since 1970), cause (what failed
    first, in words, or None), kill_at (seconds since 1970, by when ranks that are being ended get
    SIGKILL, or None), and ranks: a list of rank, pid (None), state (of `lifecycle.Worker`),
    started_at (seconds since 1970, or None), exit (in words, or None), ended (of
    `lifecycle.Ended`, or None), failed (whether by itself), last_line (that it wrote, as far as it
    passes or is kept by the launcher; harmless and without colours), and of its last beat: beats,
    beat_at (seconds since 1970, or None), step, total, fields.
    """
    from procession.output.escape import harmless, uncoloured
    from procession.output.rundir import masked_words

    offset = time.time() - time.monotonic()
    life = supervisor.lifecycle
    ranks: list[dict[str, Any]] = []
    for record, rank in zip(list(supervisor.records), list(life.ranks), strict=False):
        beat = spawner.board.beat(record.rank)
        line = spawner.streams.last_line(record.attempt, record.rank)
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
    return {
        "name": spec.name,
        "run": spawner.run_id,
        "run_dir": spawner.run_dir.path if spawner.run_dir.kept else "",
        "words": masked_words(words_of(spec.program)),
        "launcher": os.getpid(),
        "nproc": spec.nproc,
        "node": spec.node.rank,
        "nodes": spec.node.count,
        "first": spec.node.first(spec.nproc),
        "state": supervisor.phase.name,
        "attempt": life.attempt,
        "restarts": spec.restart.max,
        "began": supervisor.journal.events[0].time if supervisor.journal.events else time.time(),
        "cause": _cause(spec, supervisor, spawner),
        "kill_at": supervisor.kill_at + offset if supervisor.kill_at is not None else None,
        "ranks": ranks,
    }


def _cause(spec: Spec, supervisor: Supervisor, spawner: Spawner) -> str | None:
    life = supervisor.lifecycle
    failures = life.failures
    if not failures:
        return None
    end = rank_end(
        spec, life, supervisor.records[failures[0]], spawner, bool(supervisor.lost_server)
    )
    return f"rank {spec.node.first(spec.nproc) + end.rank} {what_happened(end)}"


def stacks_of(
    supervisor: Supervisor, timeout: float, *, native: bool = False
) -> list[dict[str, Any]]:
    """Say where the ranks of a group are; from any thread but the supervisor's.

    See `Group.stacks`.
    """
    from procession.stacks.outside import look
    from procession.stacks.text import stack_of

    answered = Latch()
    seen: list[Taken] = []

    def done(taken: list[Taken]) -> None:
        seen.extend(taken)
        answered.set()

    if supervisor.request_stacks(timeout, done):
        answered.wait(timeout + MARGIN)
    stacks = [stack_of(t.rank, t.pid, t.state, t.letter, t.text) for t in list(seen)]
    return [stack.as_dict() for stack in look(stacks, timeout, native=native)]
