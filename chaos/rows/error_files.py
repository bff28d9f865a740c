"""The error files of ranks are torn, huge, links, FIFOs, or something else."""

from __future__ import annotations

import resource
import time
from typing import Any

import procession
from chaos.programs import files
from chaos.row import Row, Trial
from chaos.runner import ROOT

GRACE = 0.2
NPROC = 2
SILENT = ("none", "good", "a hard link")  # a hard link is the file itself
MOST_MEMORY = 100_000  # KiB more than before


def strike(trial: Trial) -> None:
    """Run a group of which a rank leaves such a file and fails."""
    chance, work = trial.chance, trial.place / "work"
    kind, loser = chance.choice(files.KINDS), chance.randrange(NPROC)
    way, kept = chance.choice(("exit", "exit", "raise")), chance.random() < 0.5
    # Of a function that raises, the description comes by the pipe, and no file is read.
    trial.do(f"rank {loser} leaves {kind}, and then: {way}" + ", files kept" * kept)
    logs: Any = procession.Logs(work / "logs" if kept else None, ranks=[])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        procession.run(
            files.leave,
            args=(kind, loser, str(work), way),
            nproc=NPROC,
            env={"PYTHONPATH": str(ROOT)},
            logs=logs,
            stop=procession.Stop(grace=GRACE, linger=GRACE),
            learn=False,
            timeout=20,
        )
        trial.problems.append("the group did not fail")
        return
    except procession.GroupFailed as failed:
        ended = time.monotonic()
        said, cause = str(failed), failed.cause
    trial.took("until the end", ended - float((work / "struck").read_text()), GRACE + 1)
    trial.must(cause.rank == loser, f"cause: {cause.rank}")
    if way == "raise":
        trial.must("on purpose" in said, f"the exception is not told: {said[:500]}")
        trial.count("described by the rank")
    else:
        trial.must(cause.exit.code == 3, f"exit: {cause.exit}")
        ignored = "its error file was ignored" in said
        unreadable = kind == "not readable" and "holds no message" in said  # root may read it
        trial.must(ignored == (kind not in SILENT) or unreadable, f"{kind}: {said[:500]}")
        trial.must("a good one" in said or kind != "good", f"not read: {said[:500]}")
        trial.count("ignored, with the reason" if ignored else "none, or read")
    followed = files.MESSAGE in said and kind != "a hard link"
    trial.must(not followed, f"a link was followed: {said[:500]}")
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    trial.must(more < MOST_MEMORY, f"{more} KiB of memory more")


ROW = Row(
    fault="the error file of a rank is torn, empty, 1 GiB large, no JSON, nested 200,000 deep, a "
    "directory, a FIFO, a link to a file, a FIFO, a device or itself",
    holds="ignored, and the report says why; no link followed; no hang, no memory used",
    full=200,
    trials=33,
    short=6,
    strike=strike,
)
