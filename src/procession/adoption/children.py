"""How other interpreters come to adopt: two variables, which they find at their start.

PYTHONPATH leads to the directory `startup`, whose `sitecustomize` every interpreter runs that obeys
that variable (not `python -I`, `-E` or `-S`); in a virtual environment, too. PROCESSION_ADOPT says
who is meant: a pid (that process alone, also after an exec), or `children`, which is everybody.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping

VARIABLE = "PROCESSION_ADOPT"
PATH = "PYTHONPATH"
EVERYBODY = "children"
STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")


def variables(env: Mapping[str, str], whom: str) -> dict[str, str]:
    """Give the variables by which an interpreter adopts. env: where they will stand."""
    paths = [path for path in env.get(PATH, "").split(os.pathsep) if path and path != STARTUP]
    return {VARIABLE: whom, PATH: os.pathsep.join([STARTUP, *paths])}


def put(env: MutableMapping[str, str]) -> bool:
    """Have all interpreters adopt that start with this environment; False if they do already."""
    if env.get(VARIABLE) == EVERYBODY:
        return False
    env.update(variables(env, EVERYBODY))
    return True


def take(env: MutableMapping[str, str]) -> None:
    """Undo `put`. What others have added to PYTHONPATH since stays."""
    env.pop(VARIABLE, None)
    left = [path for path in env.pop(PATH, "").split(os.pathsep) if path not in ("", STARTUP)]
    if left:
        env[PATH] = os.pathsep.join(left)
