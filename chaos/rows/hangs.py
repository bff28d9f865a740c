"""A rank hangs: at a lock, in C with the GIL held, or stopped."""

from __future__ import annotations

import re
import time
from typing import Any

import procession
from chaos.programs import hanging
from chaos.row import SLOW, Row, Trial
from chaos.rows import failure_of
from chaos.runner import ROOT
from procession.values.figures import parse_ranks

GRACE = 0.2
LIMIT = 0.5 * SLOW  # seconds
SAID = {
    "a lock": r"(is|waits) in ",
    "the GIL, held in C": r"(is|waits) in ",
    "SIGSTOP": r"is stopped \(as by SIGSTOP",
}


def strike(trial: Trial) -> None:
    """Run a group of which one rank hangs, and look at what is said of it."""
    chance, work = trial.chance, trial.place / "work"
    kind, nproc = chance.choice(hanging.KINDS), chance.randrange(2, 6)
    loser, by = chance.randrange(nproc), chance.choice(("beats", "silence"))
    if kind in hanging.PLACES:
        nproc = max(nproc, 3)  # of two that are at two places, nobody can say which hangs
        loser = chance.randrange(nproc)
    together = by == "silence" or chance.random() < 0.5  # one line of anybody is a sign of life
    method = chance.choice(("forkserver", "spawn"))
    trial.do(
        f"{method}: rank {loser} of {nproc} hangs in {kind}, found by {by}"
        + ", the others wait for it" * together
    )
    noticed: list[float] = []

    def hear(event: Any) -> None:
        if event.kind == "hung":
            noticed.append(time.monotonic())

    hang = procession.Hang(timeout=LIMIT) if by == "beats" else procession.Hang(silence=LIMIT)
    failed = failure_of(
        hanging.work,
        args=(str(work), kind, loser, together),
        nproc=nproc,
        start_method=method,
        env={"PYTHONPATH": str(ROOT)},
        hang=hang,
        stop=procession.Stop(grace=GRACE, linger=GRACE),
        logs=procession.Logs(work / "logs", redirect=procession.Std.ALL),
        on_event=hear,
        timeout=(10 + LIMIT) * SLOW,
    )
    _judge(trial, failed, kind, loser, nproc)
    took = (noticed or [time.monotonic()])[0] - float((work / "struck").read_text())
    trial.took(f"until noticed, less the limit, by {by}", took - LIMIT, 1.0)
    trial.count(kind)


def _judge(trial: Trial, failed: Any, kind: str, loser: int, nproc: int) -> None:
    cause = failed.cause
    told = (cause.rank, cause.outcome.name)
    trial.must(told == (loser, "HUNG"), f"cause: {told}: {str(failed)[:800]}")
    text = "\n".join(failed.end.stacks)
    named: set[int] = set()
    for line in failed.end.stacks:
        for part in re.findall(r"ranks? \[?([\d,-]+)\]?", line):
            named |= parse_ranks(part)
    trial.must(named == {*range(nproc)}, f"stacks or states of {sorted(named)} only: {text}")
    first = str(failed).splitlines()[0]
    right = re.search(SAID[kind], first) is not None
    trial.must(right, f"not said that it {SAID[kind]}: {first}")


ROW = Row(
    fault="a rank of 2 to 5 hangs: at a lock, in C with the GIL held, by SIGSTOP; the others "
    "go on or wait for it",
    holds="that rank is named; noticed within the limit + 1 s; a stack or state of each rank",
    full=500,
    strike=strike,
    limit=60 * SLOW,
)
