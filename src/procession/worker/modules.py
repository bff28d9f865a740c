"""Which modules a rank had imported when its program ended, as a report for its launcher."""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any


MOST_WRITES = 100
SETS_LOGGERS, MOVES = "logging.config", "os.chdir"
_WRITES = frozenset(("os.putenv", "os.unsetenv"))


class Modules:
    """Observes one rank, from before its program runs; called at the end, it gives the report.

    packages: whose modules are reported.

    An audit hook sees each write to the environment, also one that was undone later, and each
    change of the directory. A hook cannot be removed, and is called at each audited event: half a
    microsecond.
    """

    def __init__(self, packages: list[str]) -> None:
        self._packages = frozenset(packages)
        self._early = frozenset(sys.modules)  # what was preloaded
        # Variable, new value, and the module that was imported last before the write.
        self._writes: list[tuple[str, str | None, str]] = []
        self._moved = False  # it has changed its directory
        self._pid = os.getpid()

        def hear(event: str, arguments: tuple[Any, ...]) -> None:
            if event in _WRITES:
                self._note(*arguments)
            elif event == MOVES and os.getpid() == self._pid:
                self._moved = True

        sys.addaudithook(hear)

    def _note(self, name: bytes, value: bytes | None = None) -> None:
        if len(self._writes) >= MOST_WRITES or os.getpid() != self._pid:
            return
        try:
            text = None if value is None else os.fsdecode(value)
            variable = os.fsdecode(name)
            if os.environ.get(variable) != text:
                self._writes.append((variable, text, next(reversed(sys.modules), "")))
        except Exception:
            pass  # the program must not notice

    def __call__(self) -> bytes:
        """Give, as JSON: new modules, the files of their packages, changes, temporary directory.

        That is None if it is not known. A change is what was changed, its new value, and how many
        of the new modules had been imported before it: a variable of the environment (None:
        removed). `os.chdir`, and the import of `logging.config`, which sets up all loggers that
        there are, count for all modules. Empty if anything fails.
        """
        try:
            names = list(sys.modules)
            ours = [n not in self._early and n.partition(".")[0] in self._packages for n in names]
            modules = [name for name, is_ours in zip(names, ours, strict=True) if is_ours]
            files = {n: _file(sys.modules[n]) for n in self._packages if n in sys.modules}
            changes: list[tuple[str, str | None, int]] = []
            for variable, value, last in self._writes:
                place = names.index(last) + 1 if last in names else 0
                changes.append((variable, value, sum(ours[:place])))
            of_all = {MOVES: self._moved, SETS_LOGGERS: SETS_LOGGERS in names}
            changes += [(what, None, 0) for what, is_so in of_all.items() if is_so]
            temporary = getattr(sys.modules.get("tempfile"), "tempdir", None)
            return json.dumps([modules, files, changes, temporary]).encode()
        except Exception:
            return b""  # the program must not notice


def _file(module: Any) -> str:
    return str(getattr(module, "__file__", None) or "")
