"""What an agent is told of a group before its first rank: the rules; see `agent.run`."""

from __future__ import annotations

from procession.rules.lifecycle import Lifecycle
from procession.values.program import Function
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def terms_of(spec: Spec, life: Lifecycle, *, warm: bool) -> dict[str, Any]:
    """Give the rules of a group in plain values. warm: its agent is kept for a later run."""
    stop, may = spec.stop, {}
    if spec.is_python:  # commands send nothing
        from procession.prepare.results import permitted

        allowed = permitted(spec.program)
        may = {"largest": allowed.largest, "pickles": allowed.pickles}
    return {
        "nproc": spec.nproc,
        "attempt": life.attempt,
        "restarts": life.restarts,
        "patient": life.patient,
        "single": life.single,
        "python": spec.is_python,
        "function": isinstance(spec.program, Function),
        "may": may,
        "alone": spec.node.size(spec.nproc) == spec.nproc,
        "stacks": spec.hang.stacks,
        "asks": may_start_again(spec),
        "warm": warm,
        "limits": {**vars(stop), "signal": int(stop.signal), "start": spec.hang.start},
    }


def may_start_again(spec: Spec) -> bool:
    """Whether something is to be decided when the group has failed."""
    return spec.restart.max > 0 or spec.on_failure is not None
