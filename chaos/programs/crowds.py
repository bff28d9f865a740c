"""Ranks of many groups at once, and a launcher of one; a module that ranks import."""

from __future__ import annotations

import os
import sys
from typing import Any

import procession

QUIET = procession.Logs(ranks=[])


def number(group: int) -> tuple[int, int]:
    """Give back which group and rank this is."""
    return group, int(os.environ["RANK"])


def nested(group: int) -> list[Any]:
    """Run a group in a rank."""
    return procession.run(number, args=(group,), nproc=2, logs=QUIET, learn=False)


if __name__ == "__main__":
    from chaos.programs import crowds  # so that ranks import it, too

    found = procession.run(
        crowds.number, args=(int(sys.argv[1]),), nproc=2, logs=QUIET, learn=False
    )
    print(found, flush=True)
