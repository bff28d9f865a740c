"""The end of a run: its report and result are written, and clients get their last line."""

from __future__ import annotations

from procession.explain.summary import report_of, summary
from procession.rules.tables import Phase
from procession.values.errors import GroupEnd, exit_code_after

# What the index keeps of a result for which the run's directory has no room.
KEPT = ("state", "exit_code", "nproc", "attempt")
MOST_REPORT = 8000  # characters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.control.reach import Reach
    from procession.control.reachable import Reachable


def conclude(run: Reachable, reach: Reach | None, end: GroupEnd | None, code: int | None) -> None:
    """See `Group.conclude`. end: None if the loop that runs it failed."""
    report = f"the supervisor of {run.spec.name} failed; its ranks were ended"
    given = code if code is not None else _code(run, end)
    if end is not None:
        report = report_of(run.state, end, run.who_stopped)
        if run.run_dir:
            result = summary(run.spec, run.state, end, given, run.began)
            if not run.write_end(result, report):
                from procession.control.index import note_end

                kept = {key: result[key] for key in KEPT if key in result}
                note_end(run.run_dir, {**kept, "report": f"{report[:MOST_REPORT]}\n"})
    if reach is not None:
        reach.close({"state": run.state.name, "code": given, "report": report})


def _code(run: Reachable, end: GroupEnd | None) -> int:
    """Say what a command should exit with that did nothing but run it."""
    if end is None:
        return 1
    if end.failures:
        return exit_code_after(end.failures[0])
    return 128 + (run.stopped_by or run.stop_signal) if run.state is Phase.STOPPED else 0
