"""`--json`: how a run ended, as one JSON object, with nothing else on the standard output.

While the group runs, descriptor 1 is the standard error, which gets all that ranks write.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from procession.cli.say import say_out
from procession.explain.summary import summary
from procession.rules.tables import Phase
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.group.handle import Handle


@contextmanager
def console_on_stderr() -> Generator[None]:
    """Send what is written to the standard output to the standard error while the block runs."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def print_result(
    spec: Spec, run: Handle | None, code: int, began: float, result: dict[str, Any] | None = None
) -> None:
    """Print how a run ended. run: None if nothing could be started.

    began: in seconds of the monotonic clock. result: of a job that has told it, {} if another
    launcher prints it.
    """
    if result is None:
        state = Phase.FAILED if run is None else run.state
        result = summary(spec, state, None if run is None else run.end, code, began)
    if result:
        say_out(json.dumps(result, indent=2))
