"""How other interpreters come to adopt: two variables, which they find at their start.

PYTHONPATH leads to the directory `startup`, whose `sitecustomize` every interpreter runs that obeys
that variable (not `python -I`, `-E` or `-S`); in a virtual environment, too. PROCESSION_ADOPT says
who is meant: a pid (that process alone, also after an exec), or `children`, which is everybody.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

VARIABLE = "PROCESSION_ADOPT"
PATH = "PYTHONPATH"
EVERYBODY = "children"
STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")


def variables(env: Mapping[str, str], whom: str) -> dict[str, str]:
    """Give the variables by which an interpreter adopts. env: where they will stand."""
    paths = [path for path in env.get(PATH, "").split(os.pathsep) if path and path != STARTUP]
    return {VARIABLE: whom, PATH: os.pathsep.join([STARTUP, *paths])}
