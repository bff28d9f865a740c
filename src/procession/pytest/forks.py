"""Forks of pytest's process, or of its forks: what each does when it begins."""

from __future__ import annotations

import os
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def forked() -> int:
    """Fork this process; gives 0 in the child, else its pid."""
    with warnings.catch_warnings():  # of threads that a fork does not have; see the docs
        warnings.simplefilter("ignore")
        return os.fork()


def be(call: Any) -> NoReturn:
    """Be what `call` does, and nothing of what the forked process was."""
    status = 1
    try:
        status = call() or 0
    finally:
        os._exit(status)
