"""Ranks that ignore signals, fork on, and write garbage into all that they have."""

from __future__ import annotations

import time

import procession
from chaos.programs import unruly
from chaos.row import Row, Trial
from chaos.runner import ROOT

GRACE = 0.3
NPROC = 5


def strike(trial: Trial) -> None:
    """Run a group of unruly ranks; rank 0 fails."""
    chance, work = trial.chance, trial.place / "work"
    method = chance.choice(("forkserver", "forkserver", "spawn", "fork"))
    # Forks of the launcher have all that it has open, as they should: then it is not touched.
    choices = [k for k in unruly.KINDS if method != "fork" or k not in unruly.INTO_ALL]
    kinds = ["", *(chance.choice(choices) for _ in range(NPROC - 1))]
    logs = chance.choice(
        (
            procession.Logs(ranks=[]),
            procession.Logs(),
            procession.Logs(work / "logs", tee=procession.Std.ALL),
        )
    )
    trial.do(f"{method}: {', '.join(kinds[1:])}")
    struck = work / "struck"
    try:
        procession.run(
            unruly.be,
            args=(kinds,),
            nproc=NPROC,
            start_method=method,
            env={"CHAOS_WORK": str(work), "PYTHONPATH": str(ROOT)},
            logs=logs,
            stop=procession.Stop(grace=GRACE, linger=GRACE),
            learn=False,
            timeout=20,
        )
    except procession.GroupFailed as failed:
        ended = time.monotonic()
        garbage = {"writes into all", "overwrites all", "truncates all", "closes all"} & {*kinds}
        if failed.cause.rank or not struck.exists():
            # One that closes what it tells its outcome by, or writes garbage there, has failed.
            why = f"cause: rank {failed.cause.rank} {failed.cause.outcome} {failed.cause.message}"
            trial.must(bool(garbage), why)
            trial.count("an unruly rank failed first")
        else:
            trial.must(failed.cause.type_name.endswith("ArithmeticError"), str(failed)[:500])
            trial.took("until the end", ended - float(struck.read_text()), GRACE + 1)
            trial.count("rank 0 failed first")
    except TimeoutError:
        trial.problems.append("the group had not failed after 20 s")
    else:
        trial.problems.append("the group did not fail")
    procession.run(int, nproc=2, timeout=20)


ROW = Row(
    fault="ranks that ignore SIGTERM, are stopped, block all signals, fork on, leave their "
    "session, close or overwrite every descriptor, write garbage into each, truncate all",
    holds=f"ended within grace ({GRACE} s) + 1 s; the launcher unharmed, and its next launch works",
    full=300,
    trials=50,
    short=5,
    strike=strike,
)
