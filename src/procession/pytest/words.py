"""A verdict as pytest shows failures: the first one as its rank described it, then the others."""

from __future__ import annotations

from _pytest._code.code import ExceptionChainRepr, ReprEntryNative, ReprTraceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.pytest.verdict import Verdict


def write_places(terminalreporter: Any, test: str, stacks: str) -> None:
    """Write where the ranks of a test were that was interrupted."""
    terminalreporter.section(f"where the ranks of {test} were", "_")
    terminalreporter.write_line(stacks.strip())


def longrepr_of(config: Any, verdict: Verdict) -> Any:
    """Give what pytest shows of a failure.

    It is of the classes that pytest makes itself, so that it can travel between processes (xdist).
    """
    from _pytest._code.code import ReprFileLocation

    found: Any = None
    if verdict.report is not None:
        report = config.hook.pytest_report_from_serializable(
            config=config, data=dict(verdict.report)
        )
        found = report.longrepr
    if not hasattr(found, "chain"):
        text = "" if found is None else f"\n{found}"
        native = ReprTraceback([ReprEntryNative([f"{verdict.headline}{text}\n"])], None, "native")
        found = ExceptionChainRepr([(native, ReprFileLocation("", 0, verdict.headline), None)])
    else:
        first = ReprEntryNative([f"{verdict.headline}\n"])
        found.chain[0][0].reprentries.insert(0, first)
    if found.reprcrash is not None:
        found.reprcrash.message = verdict.headline
    if verdict.others:
        found.addsection(
            "other ranks" if verdict.first is not None else "ranks", "\n".join(verdict.others)
        )
    if verdict.stacks:
        found.addsection("where the ranks were", verdict.stacks.rstrip())
    return found
