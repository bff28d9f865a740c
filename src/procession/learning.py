"""What a program's rank had imported at its end, on its way to the next launch of that program.

Rank 0 tells it on its result pipe, behind its outcome; `procession.preload.learned` keeps it.
"""

from __future__ import annotations

import json
import os
import sys

from procession.forkserver.boot import interpreter_flags
from procession.preload import learned
from procession.preload.plan import Plan
from procession.spec import Function, Module, Script, Spec


class Learning:
    """The account of one group. known: modules that an earlier launch had imported at its end."""

    def __init__(self, spec: Spec, plan: Plan) -> None:
        self._key = learned.program_key(*_name_of(spec), interpreter_flags())
        self._planned = plan.modules
        self.known = learned.load(self._key, plan.modules)

    @property
    def packages(self) -> list[str]:
        """Of which packages the modules are of interest."""
        return sorted({name.partition(".")[0] for name in self._planned})

    def forget(self) -> None:
        """Keep nothing of this program, and learn nothing: what was known did no good."""
        learned.forget(self._key)
        self._planned = ()

    def take(self, account: bytes) -> None:
        """Keep the account of a rank, if it says something new."""
        try:
            modules, files, changed = json.loads(account)
            new = [name for name in modules if name not in {*self.known, *self._planned}]
            if new and self._planned:
                learned.store(self._key, [*self.known, *new], files, changed)
        except (ValueError, TypeError, AttributeError):
            pass  # there is none, or it is not our bootstrap's


def _name_of(spec: Spec) -> tuple[str, str]:
    program = spec.program
    if isinstance(program, Script):
        return "script", os.path.join(spec.cwd, program.path)
    if isinstance(program, Module):
        return "module", f"{spec.cwd}:{program.name}"
    assert isinstance(program, Function)
    if program.main is not None:
        main = program.main
        where = main.path if isinstance(main, Script) else main.name
        return "function", f"{os.path.abspath(where)}:{spec.name}"
    call = getattr(program.call, "func", program.call)
    module = str(getattr(call, "__module__", ""))
    if module == "__main__":
        module = os.path.abspath(getattr(sys.modules["__main__"], "__file__", None) or ".")
    name = getattr(call, "__qualname__", type(call).__qualname__)
    return "function", f"{module}:{name}"
