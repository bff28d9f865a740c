"""What runs in a rank of `MultiprocessContext`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from procession.elastic.errors import record


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call the rank's function, with its exceptions recorded in its error file."""
    return record(function)(*args)
