"""`--json`: how a run ended, as one JSON object, with nothing else on the standard output.

Meanwhile descriptor 1 is the standard error, so that whatever ranks write to the console is there.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from procession.cli.say import say
from procession.errors import GroupFailed, RankEnd
from procession.exit import signal_name
from procession.group import Group
from procession.lifecycle import Phase
from procession.spec import Spec


@contextmanager
def console_on_stderr() -> Generator[None]:
    """Let what is written to the standard output go to the standard error, while the block runs."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def tell(spec: Spec, group: Group | None, code: int, began: float) -> None:
    """Print how a group ended, None for one of which nothing could be started.

    began: in seconds of the monotonic clock.
    """
    ended = time.monotonic()
    run: dict[str, Any] = {
        "name": spec.name,
        "state": Phase.FAILED.name,
        "exit_code": code,
        "nproc": spec.nproc,
        "node": spec.node.rank,
        "nodes": spec.node.count,
        "attempt": 0,
        "run_dir": "",
        "began": round(time.time() - (ended - began), 6),
        "seconds": round(ended - began, 6),
        "cause": None,
        "failures": [],
        "stacks": [],
        "stacks_file": "",
        "ranks": [],
    }
    if group is not None:
        _add_ranks(run, group, began)
    say(json.dumps(run, indent=2) + "\n", sys.stdout)


def _add_ranks(run: dict[str, Any], group: Group, began: float) -> None:
    first = group.spec.node.first(group.spec.nproc)
    run["state"], run["run_dir"] = group.state.name, group.run_dir
    run["attempt"] = max((event.attempt for event in group), default=0)
    try:
        ranks = group.result().ranks
    except GroupFailed as e:
        run["failures"] = [first + end.rank for end in e.failures]
        ranks = sorted((*e.failures, *e.ended, *e.finished), key=lambda end: end.rank)
        run["cause"] = _rank(e.cause, first, began)
        run["stacks"], run["stacks_file"] = list(e.end.stacks), e.end.stacks_file
    run["ranks"] = [_rank(end, first, began) for end in ranks]


def _rank(end: RankEnd, first: int, began: float) -> dict[str, Any]:
    return {
        "rank": first + end.rank,
        "local_rank": end.rank,
        "pid": end.pid,
        "outcome": end.outcome.name,
        "exit_code": end.exit.code if end.announced is None else end.announced,
        "signal": signal_name(end.exit.signal) if end.exit.signal else None,
        "type": end.type_name,
        "message": end.message,
        "traceback": end.traceback,
        "started_after": round(end.started_at / 1e9 - began, 6) if end.started_at else None,
        "seconds": round(end.seconds, 6),
        "cpu_seconds": end.cpu_seconds,
        "peak_memory": end.peak_memory,
        "out_of_memory": end.out_of_memory,
        "stdout_log": end.stdout_log,
        "stderr_log": end.stderr_log,
        "error_file": end.error_file,
        "note": end.note,
    }


__all__ = ["console_on_stderr", "tell"]
