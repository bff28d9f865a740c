"""pytest's own process: it has a template run each test with ranks, and reports what came of it.

Theory of operation. Items that are marked keep all that pytest and its plugins know of them; only
what their phases do is replaced: set-up and teardown do nothing, and the call raises what the ranks
came to. So everything that looks at tests, reports them or selects them does so as it always does,
and need not know of ranks. The report of the call gets what the ranks have to show, in
`pytest_runtest_makereport`.
"""

from __future__ import annotations

import os
import shutil
from functools import partial

import pytest

from procession.pytest import spawned, subtests, terminal, words
from procession.pytest.grouptalk import YOURS
from procession.pytest.keeping import Keeping
from procession.pytest.marks import asked_of, count_of, seconds_of, usual_limit
from procession.pytest.passing import pass_on, warn
from procession.pytest.slots import slots_of
from procession.pytest.stem import Stem
from procession.pytest.template import LEAVE
from procession.pytest.verdict import Verdict, merged
from procession.pytest.wire import Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from procession.pytest.marks import Asked

    Told = dict[str, Any]

ENDING = 30.0  # seconds that a template may take to end the ranks of a test, beyond its time limit


class RanksFailed(Exception):
    """A test failed in its ranks. quits: a rank has ended the session then, why, and its code."""

    def __init__(self, headline: str, quits: tuple[str, int | None] | None) -> None:
        super().__init__(headline)
        self.quits = quits


class Parent:
    """Runs the marked tests of a session in ranks."""

    def __init__(self, session: Any) -> None:
        self._config = session.config
        self._number: dict[Any, int] = {item: n for n, item in enumerate(session.items)}
        marked = [item for item in session.items if item.get_closest_marker("ranks")]
        self._marked: set[Any] = {*marked}
        self._limits: dict[Any, float] = {}
        self._verdicts: dict[Any, Verdict] = {}
        self._quits: tuple[str, int | None] | None = None  # see `passing`
        self._interrupted: tuple[str, str] | None = None  # a test, and where its ranks were
        self._count = 0
        self._keeping = Keeping(session, marked)
        self._line: Line | None = None
        self._files = ""  # the template's directory
        self._making = ""  # the shared fixture that is being made
        self._slots = slots_of(session.config)
        self._terminal = terminal.descriptors(session.config)
        for item in marked:
            _ = item.location  # pytest keeps it; otherwise each rank would have to find it
        self._stem = Stem(session, tuple(self._terminal))
        debugger = self._config.pluginmanager.get_plugin("pdbinvoke")
        if debugger is not None:
            self._config.pluginmanager.unregister(debugger)
            mine = terminal.NotForRanks(debugger, RanksFailed)
            self._config.pluginmanager.register(mine, "pdbinvoke")
        if self._config.getoption("--ranks-template"):
            spawned.begin(self._stem.process)
        for item in marked:  # its phases do nothing but report what came of it in its ranks
            item.setup = partial(_set_up, item)
            item.runtest = partial(self._run, item)
            item.teardown = partial(self._tear_down, item)

    # -- a test

    def _run(self, item: Any) -> None:
        self._verdicts.pop(item, None)
        self._quits = None
        came = self._came(item)
        if "ranks" in came:
            pass_on(self._config, came, item)
            self._quits = came.get("quit")
            verdict = merged(came, came["limit"])
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
        nproc = count_of(item, asked)
        return {
            "item": self._number[item],
            "name": item.name,
            "nproc": nproc,
            "timeout": timeout,
            "backend": asked.backend,
            "method": asked.method,
            "tmp": str(base / f"ranks{self._count}-{name}"),
            "keep": self._keeping.key_of(item, asked, nproc),
            "next": self._keeping.after(item),
        }

    def _asked(self, item: Any, request: Told) -> Told:
        if self._slots is not None:
            self._slots.take(request["nproc"])
            if request["nproc"] > self._slots.most:
                said = (
                    f"this test has {request['nproc']} ranks, more than --ranks-at-once allows "
                    f"({self._slots.most}): it runs while no other test in ranks does"
                )
                self._warn(item, said)
        try:
            came = self._answered(request, item.nodeid)
        finally:
            if self._slots is not None:
                self._slots.give_back()
        if "ranks" in came:
            if came["note"]:
                self._warn(item, came["note"])
            subtests.report(item, came)
        return came

    def _warn(self, item: Any, said: str) -> None:
        warning = pytest.PytestWarning(said)
        warn(self._config, warning, str(item.path), 0, "runtest", item.nodeid)

    def _answered(self, request: Told, test: str) -> Told:
        """Have the template run a test; gives what came of it. test: its name."""
        self._making = ""
        try:
            return self._exchanged(request)
        except (EOFError, OSError):
            self._drop()
            if self._files:
                shutil.rmtree(self._files, ignore_errors=True)  # it was killed, perhaps
                self._files = ""
        except BaseException as e:
            self._stop(test)
            if isinstance(e, KeyboardInterrupt) and self._config.getoption("usepdb"):
                # There is nothing to be debugged in this process, which only waits.
                raise pytest.exit.Exception("Interrupted", pytest.ExitCode.INTERRUPTED) from None
            raise
        what = "somebody has ended or stopped"
        if self._making:
            what = f"the shared fixture {self._making} has ended"
        return {"fault": f"{what} the process that ranks are forked from"}

    def _exchanged(self, request: Told | str) -> Told:
        """Talk with the template until it says what came of a test. Raises EOFError, OSError."""
        lent: terminal.Lent | None = None
        try:
            if self._line is None:
                self._line = self._stem.template()
            line = self._line
            line.send(request)
            while True:
                kind, value = line.receive()
                if kind == "came":
                    return value
                if kind == "making":
                    self._making = value
                elif kind == "ready":
                    pid, self._files = value
                    line.ends_with(pid)
                elif kind == "debug":
                    lent = terminal.Lent(self._terminal, value)
                    line.send(YOURS)
                elif lent is not None:
                    lent.take_back()
                    lent = None
        finally:
            if lent is not None:
                lent.take_back()

    def _drop(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _stop(self, test: str) -> None:
        """Have the ranks of a test ended, and wait until they are."""
        came = self._exchange("stop")
        if self._making and self._line is not None:
            self._interrupted = (test, f"the shared fixture {self._making} was being made")
            self._line.kill()  # it cannot hear us
        elif "stacks" in came:
            self._interrupted = (test, came["stacks"])
        self._drop()

    def _exchange(self, message: str) -> Told:
        """Say something to the template; gives what came of it, if it is there and can hear."""
        if self._line is None or self._making:
            return {}
        self._line.sock.settimeout(ENDING)
        try:
            return self._exchanged(message)
        except (EOFError, OSError):
            return {}

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
            test, stacks = self._interrupted
            terminalreporter.section(f"where the ranks of {test} were", "_")
            terminalreporter.write_line(stacks.strip())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> None:
        """Take note of what follows."""
        self._keeping.is_next(item, nextitem)

    def pytest_exception_interact(self, call: Any) -> None:
        """Quit when a failure has been reported, if who debugged it has quit."""
        failed = call.excinfo.value
        if isinstance(failed, RanksFailed) and failed.quits is not None:
            pytest.exit(*failed.quits)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """End the processes that tests came from."""
        self._close()

    def pytest_unconfigure(self) -> None:
        """The same, for a session that did not come to its end."""
        self._close()

    def _close(self) -> None:
        if self._keeping.any:
            self._exchange(LEAVE)
        self._drop()
        spawned.end()
        self._stem.close()
        while self._terminal:
            os.close(self._terminal.pop())


def _set_up(item: Any) -> None:
    """Make no fixture here. A plugin that asks for one, as Hypothesis does, gets its definition."""
    request = getattr(item, "_request", None)
    if request:
        found = request._arg2fixturedefs
        request._get_active_fixturedef = lambda name: found[name][-1]  # pyright: ignore
