"""Tests with ranks, as pytest sees them: ordinary tests.

Theory of operation. Items that are marked keep all that pytest and its plugins know of them; only
what their phases do is replaced: set-up and teardown do nothing, and the call raises what the ranks
came to. So everything that looks at tests, reports them or selects them does so as it always does,
and need not know of ranks. The report of the call gets what the ranks have to show, in
`pytest_runtest_makereport`.
"""

from __future__ import annotations

from functools import partial

import pytest

from procession.pytest import words
from procession.pytest.marks import asked_of, count_of, seconds_of, usual_limit
from procession.pytest.passing import pass_on
from procession.pytest.verdict import Verdict, merged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from procession.pytest.marks import Asked

    Told = dict[str, Any]


class RanksFailed(Exception):
    """A test failed in its ranks. quits: a rank has ended the session then, why, and its code."""

    def __init__(self, headline: str, quits: tuple[str, int | None] | None) -> None:
        super().__init__(headline)
        self.quits = quits


class Reporting:
    """Reports what the marked tests of a session come to in ranks."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._number: dict[Any, int] = {}
        self._marked: set[Any] = set()
        self._limits: dict[Any, float] = {}
        self._verdicts: dict[Any, Verdict] = {}
        self._quits: tuple[str, int | None] | None = None  # see `passing`
        self._interrupted: tuple[str, str] | None = None  # a test, and where its ranks were
        self._count = 0

    def _note_items(self, session: Any) -> list[Any]:
        """Note what was collected; gives the items with ranks."""
        self._number = {item: n for n, item in enumerate(session.items)}
        marked = [item for item in session.items if item.get_closest_marker("ranks")]
        self._marked = {*marked}
        return marked

    def _asked(self, item: Any, request: Told) -> Told:
        """Have the ranks run a test; gives what came of it."""
        raise NotImplementedError

    def _stand_in(self, item: Any, came: Callable[[Any], Told]) -> None:
        """Have the phases of an item do nothing but report what came of it in its ranks."""
        item.setup = partial(_set_up, item)
        item.runtest = partial(self._run, item, came)
        item.teardown = partial(self._tear_down, item)

    def _came(self, item: Any) -> Told:
        """Have the ranks run a test that may be wrong; gives what came of it."""
        try:
            asked = asked_of(item)
            assert asked is not None
            request = self._request(item, asked)
        except ValueError as e:
            return {"fault": f"@pytest.mark.ranks: {e}"}
        return {**self._asked(item, request), "limit": request["timeout"]}

    def _request(self, item: Any, asked: Asked) -> Told:
        """Say what a mark asks for. Raises ValueError."""
        timeout = asked.timeout
        if timeout is None:
            timeout = self._limits.get(item)
            if timeout is not None:
                timeout = seconds_of(timeout, "the limit of pytest-timeout")
        if timeout is None:
            timeout = usual_limit(self._config)
        self._count += 1
        # The ranks make the directory.
        base = self._config._tmp_path_factory.getbasetemp()
        name = "".join(c if c.isalnum() else "_" for c in item.name)[:30]
        return {
            "item": self._number[item],
            "name": item.name,
            "nproc": count_of(item, asked),
            "timeout": timeout,
            "backend": asked.backend,
            "method": asked.method,
            "tmp": str(base / f"ranks{self._count}-{name}"),
        }

    def _run(self, item: Any, ask: Callable[[Any], Told]) -> None:
        self._verdicts.pop(item, None)
        self._quits = None
        came = ask(item)
        if "ranks" in came:
            pass_on(self._config, came, item)
            self._quits = came.get("quit")
            verdict = merged(came, came["limit"])
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
            raise RanksFailed(verdict.headline, self._quits)

    def _tear_down(self, item: Any) -> None:
        verdict = self._verdicts.get(item)
        if verdict is not None and verdict.outcome == "failed" and verdict.when == "teardown":
            raise RanksFailed(verdict.headline, self._quits)

    # -- hooks

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
            report.longrepr = words.longrepr_of(self._config, verdict)
            report.when = verdict.when
        return report

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: Any, settings: Any) -> bool | None:
        """Take the limit that pytest-timeout has for a test with ranks."""
        if item not in self._marked:
            return None
        self._limits[item] = float(settings.timeout)
        return True

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_cancel_timer(self, item: Any) -> bool | None:
        """Have no timer removed that was not set."""
        return True if item in self._limits else None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say where the ranks were when a test was interrupted."""
        if self._interrupted is not None:
            words.write_places(terminalreporter, *self._interrupted)


def _set_up(item: Any) -> None:
    """Make no fixture here. A plugin that asks for one, as Hypothesis does, gets its definition."""
    request = getattr(item, "_request", None)
    if request:
        found = request._arg2fixturedefs
        request._get_active_fixturedef = lambda name: found[name][-1]  # pyright: ignore
