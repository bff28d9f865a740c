"""Other Pythons than the one that runs the matrix."""

from __future__ import annotations

from functools import partial

from chaos.matrix import interpreters
from chaos.matrix.cell import Cell


def _lacks(version: str, free_threaded: bool) -> str:
    if interpreters.find(version, free_threaded):
        return ""
    kind = "free-threaded " if free_threaded else ""
    return (
        f"no {kind}Python {version}: neither pyenv, PATH nor {interpreters.WHERE} has one; "
        "none was found on PyPI and in Debian 12"
    )


def of(version: str, free_threaded: bool = False) -> Cell:
    """Make the cell of a version."""
    return Cell(
        f"Python {version}{', free-threaded' if free_threaded else ''}",
        python=partial(interpreters.find, version, free_threaded),
        lacks=partial(_lacks, version, free_threaded),
    )


CELLS = {
    **{f"python_{version}": of(version) for version in ("3.10", "3.11", "3.12", "3.13", "3.14")},
    "python_3.13t": of("3.13", free_threaded=True),
    "python_3.14t": of("3.14", free_threaded=True),
    "system_python": Cell(
        "`/usr/bin/python3`",
        python=lambda: "/usr/bin/python3",
        lacks=lambda: interpreters.too_old("/usr/bin/python3"),
    ),
}
