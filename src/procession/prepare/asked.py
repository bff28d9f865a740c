"""What was asked for, as `run.json` keeps it."""

from __future__ import annotations

import os

from procession.system.identity import own_mark
from procession.system.origin import origin, slurm_ids
from procession.values.masking import masked, masked_words
from procession.values.program import Function, words_of
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def asked_of(spec: Spec, run_id: str) -> dict[str, Any]:
    """Describe what is to run, as plain data, for a group and for a job; secrets are masked.

    spec: of the group, or of what each node of a job runs.
    """
    return {
        "name": spec.name,
        "run": run_id,
        "program": type(spec.program).__name__.lower(),
        "words": masked_words(words_of(spec.program)),
        "programs": [masked_words(words_of(p)) for p in spec.programs] or None,
        "nproc": spec.nproc,
        "cwd": spec.cwd,
        "stop": repr(spec.stop),
        "restart": repr(spec.restart),
        "hang": repr(spec.hang),
        "logs": repr(spec.logs),
        "placement": repr(spec.placement),
        "launcher": os.getpid(),
        "mark": own_mark(),
        "origin": origin(),
        **slurm_ids(os.environ),
    }


def asked_of_group(spec: Spec, run_id: str) -> dict[str, object]:
    """Describe what is to run here, with all that its ranks get."""
    return {
        **asked_of(spec, run_id),
        "args": None if isinstance(spec.program, Function) else _masked_args(spec),
        "node": vars(spec.node),
        "env": [masked(e) for e in spec.env],
        "start_method": spec.start_method,
    }


def _masked_args(spec: Spec) -> list[list[str]]:
    """Give the arguments of each rank; an option at the end of its program may make one secret."""
    shown: list[list[str]] = []
    for rank, args in enumerate(spec.args):
        words = words_of(spec.program_of(rank))
        shown.append(masked_words([*words, *map(str, args)])[len(words) :])
    return shown
