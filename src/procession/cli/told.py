"""`--json`: how a run ended, as one JSON object, with nothing else on the standard output.

Meanwhile descriptor 1 is the standard error, so that whatever ranks write to the console is there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from procession.cli.say import say
from procession.group import Group
from procession.lifecycle import Phase
from procession.spec import Spec
from procession.summary import summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.engines.job import Job


@contextmanager
def console_on_stderr() -> Generator[None]:
    """Let what is written to the standard output go to the standard error, while the block runs."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def tell(spec: Spec, group: Group | Job | None, code: int, began: float) -> None:
    """Print how a group ended, None for one of which nothing could be started.

    began: in seconds of the monotonic clock.
    """
    state = Phase.FAILED if group is None else group.state
    end = None if group is None else group.end
    say(json.dumps(summary(spec, state, end, code, began), indent=2) + "\n", sys.stdout)


__all__ = ["console_on_stderr", "tell"]
