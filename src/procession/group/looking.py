"""A running group as it is now, as plain data that can be sent over a socket."""

from __future__ import annotations

import os
import time

from procession.driver.driver import Driver
from procession.values.program import words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def look_at(driver: Driver, state: str, run: str, run_dir: str) -> dict[str, Any]:
    """Describe a group as it is now; from any thread. state: the name of its phase.

    Keys: name, run (its id), run_dir ("" for none), words (its command line, or its function),
    launcher (pid), cwd, host and slurm_job (see `system.origin`), nproc, node, nodes,
    first (the number that rank 0 has in the whole job), state (of `Phase`), attempt, restarts (the
    most), began (seconds since 1970), cause (what failed first, in words, or None), kill_at
    (seconds since 1970, by when ranks that are being ended get SIGKILL, or None), and ranks: a
    list of rank, pid (None), state (of `Worker`), started_at (seconds since 1970, or
    None), exit (in words, or None), ended (of `Ended`, or None), failed (whether by
    itself), last_line (that it wrote, if the launcher has it; escaped, and without colours), and of
    its last beat: beats, beat_at (seconds since 1970, or None), step, total, fields.
    """
    from procession.system.origin import origin
    from procession.values.masking import masked_words

    spec, began = driver.spec, driver.journal.began
    return {
        "name": spec.name,
        "run": run,
        "run_dir": run_dir,
        "words": masked_words(words_of(spec.program)),
        "launcher": os.getpid(),
        **origin(),
        "nproc": spec.nproc,
        "node": spec.node.rank,
        "nodes": spec.node.count,
        "first": spec.node.first(spec.nproc),
        "restarts": spec.restart.max,
        "state": state,
        "attempt": driver.attempt,
        "began": began[1] if began else time.time(),
        **driver.look(),
    }
