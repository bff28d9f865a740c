"""How a group ended, written down and told, when all is over."""

from __future__ import annotations

from procession.errors import GroupEnd
from procession.lifecycle import Phase
from procession.summary import report_of, summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.control.reach import Reach
    from procession.group import Group


def conclude(group: Group, reach: Reach | None, end: GroupEnd | None, code: int | None) -> None:
    """See `Group.conclude`. end: None if its supervisor failed."""
    report = f"the supervisor of {group.spec.name} failed; its ranks were ended"
    given = code if code is not None else _code(group, end)
    if end is not None:
        report = report_of(group.state, end)
        if group.run_dir:
            result = summary(group.spec, group.state, end, given, group.began)
            group.write_end(result, report)
    if reach is not None:
        reach.close({"state": group.state.name, "code": given, "report": report})


def _code(group: Group, end: GroupEnd | None) -> int:
    """Say what a command should exit with that did nothing but run this group."""
    if end is None:
        return 1
    if end.failures:
        cause = end.failures[0]
        return (cause.exit.shell_code if cause.announced is None else cause.announced) or 1
    return 128 + (group.stopped_by or group.stop_signal) if group.state is Phase.STOPPED else 0


__all__ = ["conclude"]
