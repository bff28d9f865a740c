"""What runs in a rank of `MultiprocessContext`. Nothing is imported that few ranks need."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call the rank's function; when it has returned, the rank waits for the others.

    The group reports what it raises, and writes it to the rank's error file. But a function that
    launched ranks itself may raise their `ChildFailedError`: then the error file of the rank that
    failed first becomes this rank's, as under `record`.
    """
    from procession.worker import ending

    ending.stay_together()
    try:
        return function(*args)
    except Exception as e:
        if type(e).__name__ == "ChildFailedError" and not _has_error_file():
            from procession.elastic.errors import hand_on

            hand_on(e)
        raise


def _has_error_file() -> bool:
    return os.path.exists(os.environ.get("TORCHELASTIC_ERROR_FILE", ""))
