"""What an agent imports before it forks, in the launcher and in the agent."""

from __future__ import annotations

from types import MappingProxyType

from procession.values.base import Value

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Preload(Value):
    """What an agent imports before it forks.

    modules: in order. env: the variables that all ranks have. reads: those of them that the modules
    read when they are imported (`X_*` stands for all that begin with `X_`). path: where modules are
    looked for, None for the agent's own `sys.path`. cwd: the ranks' directory. unset:
    variables that the modules may set, and that ranks begin without: those who set them here set
    them again when they are used. listed: the modules are on the list of safe ones, whose
    finalizers (`weakref.finalize`) only free memory. watched: it is to be known later whether the
    imports would still give the same (`agent.imported`). own: why an agent that has made these
    imports, or will have run what its group needs, is not kept for another launch, "" if it is:
    only packages of the list are kept, since what else the user's code has read nobody knows.
    """

    modules: tuple[str, ...] = ()
    env: Mapping[str, str] = MappingProxyType({})
    reads: tuple[str, ...] = ()
    path: tuple[str, ...] | None = None
    cwd: str = "/"
    unset: tuple[str, ...] = ()
    listed: bool = False
    watched: bool = False
    own: str = ""

    def misfit(self, kept: Preload) -> str:
        """Say why an agent that has imported `kept` needs more than further imports, "" if not.

        Its imports must be those with which this one begins: handlers at exit, warning filters and
        native libraries stand in the order of the imports.
        """
        from procession.values.environment import among

        if kept.modules != self.modules[: len(kept.modules)]:
            return "what is kept has made other imports"
        if not kept.modules:
            return ""
        if kept.cwd != self.cwd:
            return f"what is kept was imported in {kept.cwd}"
        if kept.path != self.path:
            return "what is kept was imported with another sys.path"
        seen = [{n: v for n, v in e.env.items() if among(kept.reads, n)} for e in (kept, self)]
        changed = {name for name, _ in seen[0].items() ^ seen[1].items()}
        return f"the variable {min(changed)} changed" if changed else ""

    @property
    def message(self) -> dict[str, Any]:
        """Its fields, for `marshal`."""
        return {**vars(self), "env": dict(self.env)}
