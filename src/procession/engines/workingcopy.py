"""A driver's directory that an engine has copied to a node, as Ray does with `working_dir`.

Ranks run in the copy: the files below the driver's directory are there, under another path. The
driver's own directory need not exist on this machine.
"""

from __future__ import annotations

import os
from typing import Any

from procession.prepare.payload import Packed
from procession.values.program import Function
from procession.values.spec import Spec


def moved(spec: Spec, original: str, copy: str, import_path: str = "") -> Spec:
    """Give the spec for a node that has `copy` in place of the driver's directory `original`.

    import_path: directories that the engine has added for imports, separated as in PYTHONPATH.
    """
    program = spec.program
    if isinstance(program, Function) and isinstance(program.call, Packed):
        described = program.call.description
        added = [copy, *filter(None, import_path.split(os.pathsep))]
        # In the copy first, as Ray's own workers.
        path = list(
            dict.fromkeys([*added, *(place(p, original, copy) for p in described["sys_path"])])
        )
        call: Any = program.call.__replace__(description={**described, "sys_path": path})
        program = Function(call)
    return spec.__replace__(program=program, cwd=place(spec.cwd, original, copy))


def place(path: str, original: str, copy: str) -> str:
    """Translate a path of the driver's: into the copy, or unchanged if it is outside."""
    if path == original:
        return copy
    inside = path.startswith(original.rstrip("/") + "/")
    return os.path.join(copy, os.path.relpath(path, original)) if inside else path
