"""Engines by name."""

from __future__ import annotations

from procession.engines.contract import EngineError
from procession.errors import SpecError
from procession.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.engines.contract import Engine
    from procession.spec import Spec

NAMES = ("slurm", "ray")


class Wanted(Value):
    """What a job wants of an engine. nodes: how many, None for all that it has; spec: of each."""

    nodes: int | None
    spec: Spec


def choose(name: str, wanted: Wanted) -> Engine:
    """Give the engine of this name. Raises SpecError, and EngineError where it is missing."""
    if name == "slurm":
        from procession.engines import slurm

        return slurm.engine_for(wanted)
    if name == "ray":
        from procession.engines import ray

        return ray.engine_for(wanted)
    raise SpecError(f"there is no engine {name!r}; there are {' and '.join(NAMES)}")


__all__ = ["NAMES", "EngineError", "Wanted", "choose"]
