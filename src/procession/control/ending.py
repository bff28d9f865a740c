"""The end of a run: its report and result are written, and clients get their last line."""

from __future__ import annotations

from procession.explain.summary import report_of, summary
from procession.rules.tables import Phase
from procession.values.errors import GroupEnd, exit_code_after

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
            run.write_end(summary(run.spec, run.state, end, given, run.began), report)
    if reach is not None:
        reach.close({"state": run.state.name, "code": given, "report": report})


def _code(run: Reachable, end: GroupEnd | None) -> int:
    """Say what a command should exit with that did nothing but run it."""
    if end is None:
        return 1
    if end.failures:
        return exit_code_after(end.failures[0])
    return 128 + (run.stopped_by or run.stop_signal) if run.state is Phase.STOPPED else 0
