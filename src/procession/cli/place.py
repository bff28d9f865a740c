"""Where ranks run and how much of the machine they get, as the command line says it."""

from __future__ import annotations

import os

from procession.cli.parts import is_number
from procession.cli.settings import Settings
from procession.errors import SpecError
from procession.placement import MODES, Placement, read_size
from procession.placing import THREADS, Placed
from procession.spec import Spec


def read_placement(s: Settings) -> Placement:
    """Read all of it. Raises SpecError."""
    mode, count, nice = s.text("numa_binding"), s.text("cpus_per_rank"), s.text("nice")
    if mode and mode not in MODES:
        where = s.where("numa_binding")
        raise SpecError(f"{where} must be one of {', '.join(MODES)}, not {mode!r}")
    if count and not (is_number(count) and int(count)):
        raise SpecError(f"{s.where('cpus_per_rank')} must be a count of 1 or more, not {count!r}")
    if nice and not is_number(nice.removeprefix("-")):
        raise SpecError(f"{s.where('nice')} must be a number from -20 to 19, not {nice!r}")
    if s.said("memory_limit"):
        try:
            read_size(s.text("memory_limit"))
        except ValueError as e:
            said = str(e).partition(": ")[2]
            raise SpecError(f"{s.where('memory_limit')}: {said}") from None
    return Placement(
        numa=mode or None,
        cpus_per_rank=int(count) if count else None,
        nice=int(nice) if nice else 0,
        memory_limit=s.text("memory_limit") or None,
    )


def say_threads(spec: Spec, placed: Placed) -> str:
    """Say what OMP_NUM_THREADS is set to; "" where it is not, or is by the user."""
    if spec.nproc < 2 or THREADS in os.environ or all(THREADS in env for env in spec.env):
        return ""
    least, most = min(placed.threads), max(placed.threads)
    count = f"{least}" if least == most else f"{least} to {most}"
    of = "the CPUs of each" if placed.cpus else f"{placed.cores} cores"
    return f"{THREADS}={count} for each of {spec.nproc} ranks ({of}; set it to choose)"


__all__ = ["read_placement", "say_threads"]
