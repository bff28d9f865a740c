"""A running group as it is now, as plain data that can be sent over a socket."""

from __future__ import annotations

import os
import time

from procession.driver.supervisor import Supervisor
from procession.explain.report import what_happened
from procession.prepare.resources import Resources
from procession.system.threads import Latch
from procession.values.program import words_of
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.agent.stacks import Taken

LINE = 300  # characters of a last line
MARGIN = 0.5  # seconds more for the supervisor to answer


def look_at(spec: Spec, supervisor: Supervisor, resources: Resources) -> dict[str, Any]:
    """Describe a group as it is now; from any thread.

    Keys: name, run (its id), run_dir ("" for none), words (its command line, or its function),
    launcher (pid), cwd, host and slurm_job (see `system.origin`), nproc, node, nodes,
    first (the number that rank 0 has in the whole job), state (of `Phase`), attempt, restarts (the
    most), began (seconds since 1970), cause (what failed first, in words, or None), kill_at
    (seconds since 1970, by when ranks that are being ended get SIGKILL, or None), and ranks: a
    list of rank, pid (None), state (of `Worker`), started_at (seconds since 1970, or
    None), exit (in words, or None), ended (of `Ended`, or None), failed (whether by
    itself), last_line (that it wrote, if the launcher has it; escaped, and without colours), and of
    its last beat: beats, beat_at (seconds since 1970, or None), step, total, fields.
    """
    from procession.output.escape import harmless, uncoloured

    offset = time.time() - time.monotonic()
    life = supervisor.lifecycle
    ranks: list[dict[str, Any]] = []
    for record, rank in zip(list(supervisor.records), list(life.ranks), strict=False):
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
    run_dir = resources.run_dir.path if resources.run_dir.kept else ""
    return {
        **outline(spec, resources.run_id, run_dir),
        "state": supervisor.phase.name,
        "attempt": life.attempt,
        "began": supervisor.journal.began[1] if supervisor.journal.began else time.time(),
        "cause": _cause(spec, supervisor),
        "kill_at": supervisor.kill_at + offset if supervisor.kill_at is not None else None,
        "ranks": ranks,
    }


def outline(spec: Spec, run: str, run_dir: str) -> dict[str, Any]:
    """Give what does not change of the description of a run. spec: of all its ranks."""
    from procession.system.origin import origin
    from procession.values.masking import masked_words

    return {
        "name": spec.name,
        "run": run,
        "run_dir": run_dir,
        "words": masked_words(words_of(spec.program)),
        "launcher": os.getpid(),
        **origin(),
        "nproc": spec.nproc,
        "node": spec.node.rank,
        "nodes": spec.node.count,
        "first": spec.node.first(spec.nproc),
        "restarts": spec.restart.max,
    }


def _cause(spec: Spec, supervisor: Supervisor) -> str | None:
    end = supervisor.outcomes.first_failure()
    if end is None:
        return None
    return f"rank {spec.node.first(spec.nproc) + end.rank} {what_happened(end)}"


def stacks_of(
    supervisor: Supervisor, timeout: float, *, native: bool = False
) -> list[dict[str, Any]]:
    """Say where the ranks of a group are; from any thread but the supervisor's.

    See `Group.stacks`.
    """
    from procession.explain.stacks.outside import look
    from procession.explain.stacks.text import stack_of

    answered = Latch()
    seen: list[Taken] = []

    def done(taken: list[Taken]) -> None:
        seen.extend(taken)
        answered.set()

    supervisor.request_stacks(timeout, done)
    answered.wait(timeout + MARGIN)
    stacks = [stack_of(t.rank, t.pid, t.state, t.letter, t.text) for t in list(seen)]
    return [stack.as_dict() for stack in look(stacks, timeout, native=native)]
