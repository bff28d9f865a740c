"""The key of a shared set-up: if two keys are equal, a loaded value is used again."""

from __future__ import annotations

import hashlib

from procession.prepare.payload import Payload
from procession.values.shared import SharedCall
from procession.values.spec import Spec

# In the description of a function, what says nothing about the set-up.
_NOT_OF_IT = ("authkey",)


def shared_key(spec: Spec, payload: Payload) -> str:
    """Give a text that is alike where the same set-up would be run for the same program.

    The set-up finds the program's words in `sys.argv`, so these count, too. "" where a group has no
    set-up. What the set-up reads is compared elsewhere (`forkserver.layers`).
    """
    if spec.shared is None:
        return ""
    described = payload.description(spec.program)
    program = sorted((n, repr(v)) for n, v in described.items() if n not in _NOT_OF_IT)
    call: object = payload.shared_pickle()
    if isinstance(spec.shared, SharedCall):
        shared = spec.shared
        call = shared.module, shared.function, shared.args, sorted(shared.kwargs.items())
    return hashlib.sha256(repr((program, spec.cwd, call)).encode()).hexdigest()
