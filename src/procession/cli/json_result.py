"""`--json`: how a run ended, as one JSON object, with nothing else on the standard output.

While the group runs, descriptor 1 is the standard error, which gets all that ranks write.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from procession.cli.say import say
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


def print_result(spec: Spec, run: Handle | None, code: int, began: float) -> None:
    """Print how a run ended. run: None if nothing could be started.

    began: in seconds of the monotonic clock.
    """
    state = Phase.FAILED if run is None else run.state
    end = None if run is None else run.end
    print_json(summary(spec, state, end, code, began))


def print_json(result: Any) -> None:
    """Print what says how a run ended."""
    say(json.dumps(result, indent=2) + "\n", sys.stdout)
