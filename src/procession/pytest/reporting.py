"""Tests with ranks, as pytest sees them: ordinary tests.

Theory of operation. Items that are marked keep all that pytest and its plugins know of them; only
what their phases do is replaced: set-up and teardown do nothing, and the call raises what the ranks
came to. So everything that looks at tests, reports them or selects them does so as it always does,
and need not know of ranks. The report of the call gets what the ranks have to show, in
`pytest_runtest_makereport`.
"""

from __future__ import annotations

import sys
import warnings
from bdb import BdbQuit
from functools import partial

import pytest
from _pytest._code.code import (
    ExceptionChainRepr,
    ReprEntryNative,
    ReprFileLocation,
    ReprTraceback,
)

from procession.pytest.marks import Asked, asked_of, count_of, seconds_of, usual_limit
from procession.pytest.verdict import Verdict, merged, place_of_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    Told = dict[str, Any]


LIMIT = "the limit of pytest-timeout"
ALONE = Asked(1)  # for a test that has no mark, and runs in a rank


class RanksFailed(BdbQuit):
    """A test failed in its ranks. By its base, pytest knows that there is nothing to debug here."""


class Reporting:
    """Reports what the marked tests of a session, which has collected, come to in ranks."""

    def __init__(self, session: Any) -> None:
        self._session, self._config = session, session.config
        marked = [item for item in session.items if item.get_closest_marker("ranks")]
        # The limits of tests in ranks, by pytest-timeout.
        self._limits: dict[Any, float | None] = dict.fromkeys(marked)
        self._verdicts: dict[Any, Verdict] = {}
        self._interrupted: tuple[str, str] | None = None  # a test, and where its ranks were
        self._after: Any = None  # the test that pytest runs next
        self._count = 0

    def _asked(self, item: Any, request: Told) -> Told:
        """Have the ranks run a test; gives what came of it."""
        raise NotImplementedError

    def _stand_in(self, item: Any) -> None:
        """Have the phases of an item do nothing but report what came of it in its ranks."""
        item.setup = partial(_set_up, item)
        item.runtest = partial(self._run, item)
        item.teardown = partial(self._tear_down, item)

    def _came(self, item: Any) -> Told:
        """Have the ranks run a test that may be wrong; gives what came of it."""
        try:
            request = self._request(item, asked_of(item) or ALONE)
        except ValueError as e:
            return {"fault": f"@pytest.mark.ranks: {e}"}
        return self._asked(item, request)

    def _request(self, item: Any, asked: Asked) -> Told:
        """Say what a mark asks for. Raises ValueError."""
        limit = self._limits[item] if asked.timeout is None else asked.timeout
        self._count += 1
        # The ranks make the directory.
        base = self._config._tmp_path_factory.getbasetemp()
        name = "".join(c if c.isalnum() else "_" for c in item.name)[:30]
        return {
            "item": self._session.items.index(item),
            "nproc": count_of(item, asked),
            "timeout": usual_limit(self._config) if limit is None else seconds_of(limit, LIMIT),
            "backend": asked.backend,
            "method": asked.method,
            "tmp": str(base / f"ranks{self._count}-{name}"),
        }

    def _run(self, item: Any) -> None:
        self._verdicts.pop(item, None)
        came = self._came(item)
        if "ranks" in came:
            _pass_on(self._config, came, item)
            verdict = merged(came)
        elif "skipped" in came:
            verdict = Verdict("skipped", reason=came["skipped"])
        else:
            verdict = Verdict("failed", headline=came["fault"], certain=True)
        self._verdicts[item] = verdict
        if verdict.outcome == "skipped":
            raise pytest.skip.Exception(verdict.reason, _use_item_location=True)
        if verdict.outcome == "xfailed":
            raise pytest.xfail.Exception(verdict.reason)
        if verdict.outcome == "failed" and verdict.when != "teardown":
            raise RanksFailed(verdict.headline)

    def _tear_down(self, item: Any) -> None:
        verdict = self._verdicts.get(item)
        if verdict is not None and verdict.outcome == "failed" and verdict.when == "teardown":
            raise RanksFailed(verdict.headline)

    # -- hooks

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, nextitem: Any) -> None:
        """Take note of what follows."""
        self._after = nextitem

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
        """Put what the ranks have to show into the report."""
        report = yield
        verdict = self._verdicts.get(item)
        if verdict is None or call.when == "setup":
            return report
        # As ever, the report of the teardown has what was captured in all phases.
        teardown = call.when == "teardown"
        found = [each for each in verdict.sections if teardown or " teardown" not in each[0]]
        report.sections = [*report.sections, *found]
        if call.when == "call":
            report.duration = verdict.seconds
        if call.excinfo is not None and isinstance(call.excinfo.value, RanksFailed):
            if verdict.certain and hasattr(report, "wasxfail"):
                del report.wasxfail
                report.outcome = "failed"
            report.longrepr = longrepr_of(self._config, verdict)
            report.when = verdict.when
        return report

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: Any, settings: Any) -> bool | None:
        """Take the limit that pytest-timeout has for a test with ranks."""
        if item not in self._limits:
            return None
        self._limits[item] = settings.timeout
        return True

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say where the ranks were when a test was interrupted."""
        if self._interrupted is not None:
            test, stacks = self._interrupted
            terminalreporter.section(f"where the ranks of {test} were", "_")
            terminalreporter.write_line(stacks.strip())


def _set_up(item: Any) -> None:
    """Make no fixture here. A plugin that asks for one, as Hypothesis does, gets its definition."""
    request = getattr(item, "_request", None)
    if request:
        found = request._arg2fixturedefs
        request._get_active_fixturedef = lambda name: found[name][-1]  # pyright: ignore


def _pass_on(config: Any, came: dict[str, Any], item: Any) -> None:
    """Let the session know what ranks want it to know.

    A rank that ends the session after it has failed was told to by whoever debugged it: so it ends
    when the failure has been reported.
    """
    warned: list[Any] = []
    for rank, told in enumerate(came["ranks"]):
        for said in told["reports"]:
            if "warning" in said:
                if said["warning"] not in warned:
                    module, name, text, *where = said["warning"]
                    warn(_warning_of(module, name, text), *where)
                warned.append(said["warning"])
            elif "subtest" in said:
                data = said["subtest"]
                context = data["_subtest.context"]
                context["msg"] = f"rank {rank}: {context['msg'] or ''}".removesuffix(": ")
                found = config.hook.pytest_report_from_serializable(config=config, data=data)
                # pytest takes the words for the values that it had made them of: it quotes again.
                object.__setattr__(found.context, "kwargs", context["kwargs"])
                item.ihook.pytest_runtest_logreport(report=found)
            elif "exit" in said:
                if place_of_failure(told) is None:
                    pytest.exit(said["exit"], said["code"])
                item.session.shouldstop = f"Exit: {said['exit']}"
            elif "interrupt" in said:
                raise KeyboardInterrupt(said["interrupt"])
    reports = [report for report in came["ranks"][0]["reports"] if "user_properties" in report]
    if reports:
        item.user_properties[:] = [tuple(each) for each in reports[-1]["user_properties"]]


def _warning_of(module: str, name: str, text: str) -> Warning:
    """Make the warning of a rank again, with another class if its own wants more than a text."""
    try:
        return getattr(sys.modules[module], name)(text)
    except Exception:
        return UserWarning(f"{name}: {text}")


def warn(message: Warning, filename: str, lineno: int) -> None:
    """Warn of something in the test that runs; filters have looked at it by now."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn_explicit(message, None, filename, lineno)


def longrepr_of(config: Any, verdict: Verdict) -> Any:
    """Give what pytest shows of a failure.

    It is of the classes that pytest makes itself, so that it can travel between processes (xdist).
    """
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
