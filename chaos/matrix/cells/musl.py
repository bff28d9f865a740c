"""Another C library than glibc."""

from __future__ import annotations

import os

from chaos.matrix import interpreters
from chaos.matrix.cell import Cell

VARIABLE = "MATRIX_MUSL_PYTHON"


def _lacks() -> str:
    path = os.environ.get(VARIABLE, "")
    if path:
        return interpreters.too_old(path)
    return f"no Python for musl: none was found on PyPI and in Debian 12; {VARIABLE} may name one"


CELLS = {
    "musl": Cell("musl (Alpine)", python=lambda: os.environ[VARIABLE], lacks=_lacks),
}
