"""From what `start_processes` is given to what a group needs: variables, arguments, placement."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from procession.elastic.logs import LogsDest
from procession.prepare.placing import place
from procession.values.environment import callers_environment
from procession.values.errors import SpecError
from procession.values.placement import MODES, Placement
from procession.values.policy import Stop
from procession.values.spec import make_spec

logger = logging.getLogger("procession.elastic.api")

Environment = dict[str, str | None]

# A failure during the start ends nothing until every rank has its process: `pids` has them all.
STOP = Stop(patience=None)


def environment(given: Mapping[str, str | None], dest: LogsDest, rank: int) -> Environment:
    """Give a rank's variables: those of this process and those given.

    The variables that a group sets for its ranks are left out, except two: the error file, and
    PYTHONUNBUFFERED for ranks with a log file. (On the console, Python buffers: ranks that write
    there piece by piece would mix their lines.)
    """
    plain = callers_environment(os.environ)
    error_file = dest.error_files.get(rank)
    if error_file:
        plain["TORCHELASTIC_ERROR_FILE"] = error_file
    if dest.stdouts[rank]:
        del plain["PYTHONUNBUFFERED"]
    return {**plain, **given}


def as_text(given: Mapping[str, Any]) -> Environment:
    """Give an environment with its values as text; None takes a variable away."""
    return {name: None if value is None else str(value) for name, value in given.items()}


def as_arguments(given: Any, rank: int) -> tuple[Any, ...]:
    """Give a rank's arguments as a tuple; a bare string is one argument. Raises TypeError."""
    if isinstance(given, (str, bytes)):
        return (given,)
    try:
        return tuple(given)
    except TypeError:
        raise TypeError(
            f"args of rank {rank} must be a tuple, not {given!r}; one argument is ({given!r},)"
        ) from None


def placement_of(numa_options: Any, nproc: int) -> Placement | None:
    """Read torch's NumaOptions, or what has its attributes, for a group of `nproc` ranks.

    Raises TypeError for what is none, and SpecError if ranks cannot be bound so; if the options say
    that this is no reason to fail, it is logged, and None is given.
    """
    if numa_options is None:
        return None
    mode = getattr(numa_options, "affinity_mode", None)
    mode = getattr(mode, "value", mode)
    if mode not in MODES:
        raise TypeError(f"numa_options must be NumaOptions with an affinity mode: {numa_options!r}")
    placement = Placement(numa=mode)
    try:
        place(make_spec(("true",), nproc=nproc, placement=placement), os.environ)
    except SpecError as e:
        if not getattr(numa_options, "should_fall_back_if_binding_fails", False):
            raise
        logger.warning("ranks are not bound to CPUs: %s", e)
        return None
    return placement
