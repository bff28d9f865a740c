"""The launcher is killed, or stopped and then killed, at every stage of its life."""

from __future__ import annotations

import signal
import sys
import time

from chaos.launchers import COMMAND, Launcher
from chaos.programs import family
from chaos.row import SLOW, Row, Trial


def strike(trial: Trial) -> None:
    """Kill a launcher whose ranks have children and daemons that ignore signals."""
    chance, work = trial.chance, trial.place / "work"
    method = chance.choice(("forkserver", "spawn", "fork", "command", "the command"))
    if method == "the command":
        argv = [COMMAND, "run", "-n", "3", "--shutdown-timeout", "0.2", family.__file__]
        argv[4:4] = chance.choice(
            ([], ["--log-dir", "logs", "-t", "3"], ["--log-dir", "logs", "-r", "3"])
        )
    else:
        argv = [sys.executable, family.__file__, method]
    # From before its imports until groups are started, run and ended in turns.
    after, frozen = chance.uniform(0, 2.0), chance.choice((0.0, 0.0, 0.01, 0.1, 0.3))
    trial.do(
        f"{method}: killed after {after:.3f} s" + f", stopped {frozen:g} s before" * bool(frozen)
    )
    launcher = Launcher(argv, work)
    time.sleep(after)
    if frozen:
        launcher.process.send_signal(signal.SIGSTOP)
        time.sleep(frozen)
    there = len(launcher.all())
    trial.count("with ranks" if there > 2 else "before ranks")
    launcher.end(0)
    _, took = launcher.wait_gone(5 * SLOW)
    trial.took("until nothing was alive", took, 1.0)
    # A launcher that is killed cannot take its socket away; the next one does.
    for path in (trial.place / "runtime").glob("procession/*"):
        if path.is_socket():
            path.unlink()


ROW = Row(
    fault="the launcher is killed, or stopped and then killed, at every stage; ranks have children "
    "and daemons that ignore signals",
    holds="nothing alive after 1 s",
    full=500,
    strike=strike,
)
