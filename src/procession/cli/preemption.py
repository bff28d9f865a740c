"""`--preempt`: who may take the machine away, by which signal, and how long before.

The time that is left after such a signal is divided. First, ranks may end by themselves, which they
do when `procession.stopping()` tells them. Then comes the stop signal, with a quarter of the time,
and not more than the shutdown time-out. The last second or so is for the launcher's report.

Sources: Slurm, `sbatch --signal` (USR1 by what its documentation suggests), and KillWait, 30 s by
default, from SIGTERM to SIGKILL: https://slurm.schedmd.com/sbatch.html, slurm.conf.html.
Kubernetes, terminationGracePeriodSeconds, 30 by default, from SIGTERM to SIGKILL:
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from procession.cli.readers import seconds, signals
from procession.values.base import is_count
from procession.values.errors import SpecError

KILL_WAIT = 30.0  # seconds
POD_GRACE = 30.0
SLURM_NOTICE = 60.0
FROM_1: Any = seconds("seconds, 1 or more", 1)
JOB_END = "SLURM_JOB_END_TIME"  # seconds since 1970
MARGIN = 0.1  # of what is left, for the launcher itself; at least a second, at most ten


def read_preemption(text: str, where: str) -> dict[int, float]:
    """Read the signals that announce the end, each with the seconds that are left then.

    Raises SpecError.
    """
    who, colon, number = text.partition(":")
    said: float = FROM_1(number, where) if colon else 0
    if who == "slurm":
        return {int(signal.SIGUSR1): said or SLURM_NOTICE, int(signal.SIGTERM): KILL_WAIT}
    if who == "kubernetes":
        return {int(signal.SIGTERM): said or POD_GRACE}
    if not said or not who.startswith("SIG"):
        raise SpecError(
            f"{where} must be slurm, kubernetes, or a signal with the seconds that are left then, "
            f"as in SIGUSR1:120, not {text!r}"
        )
    return dict.fromkeys(signals(who, where), said)


def seconds_left(said: float, number: int) -> float:
    """Give the seconds that are left now: `said`, or less if Slurm's job ends earlier."""
    text = os.environ.get(JOB_END, "")
    if number == signal.SIGTERM or not is_count(text, 19):
        return said
    known = int(text) - time.time()
    return min(said, known) if known > 0 else said


def divided(left: float, grace: float) -> tuple[float, float]:
    """Divide what is left into notice and grace, in seconds."""
    left -= min(max(1.0, MARGIN * left), 10.0, left / 2)
    grace = min(grace, left / 4)
    return left - grace, grace
