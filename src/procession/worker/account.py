"""What a rank had imported when its program came to its end, to be told to its launcher."""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any


class Account:
    """Made before the program is run. packages: of which the modules are told."""

    def __init__(self, packages: list[str]) -> None:
        self._packages = frozenset(packages)
        self._environment = dict(os.environ)
        self._there = frozenset(sys.modules)  # what was preloaded

    def __call__(self) -> bytes:
        """Give, as JSON, new modules, the files of the packages, and the variables that changed.

        Empty if it cannot be had.
        """
        then, now = self._environment, dict(os.environ)
        names = [n for n in then.keys() | now.keys() if then.get(n) != now.get(n)]
        changed = {n: now.get(n) for n in names}
        try:
            new = [n for n in list(sys.modules) if n not in self._there]
            modules = [n for n in new if n.partition(".")[0] in self._packages]
            files = {n: _file(sys.modules[n]) for n in self._packages if n in sys.modules}
            return json.dumps([modules, files, changed]).encode()
        except Exception:
            return b""  # it is no concern of the program


def _file(module: Any) -> str:
    return str(getattr(module, "__file__", None) or "")
