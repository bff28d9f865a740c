"""pytest's own process: it has a template run each test with ranks, and reports what came of it."""

from __future__ import annotations

import os
import shutil

import pytest

from procession.pytest import spawned, subtests, terminal
from procession.pytest.grouptalk import YOURS
from procession.pytest.keeping import Keeping
from procession.pytest.marks import Asked
from procession.pytest.passing import warn
from procession.pytest.reporting import RanksFailed, Reporting
from procession.pytest.slots import slots_of
from procession.pytest.stem import Stem
from procession.pytest.template import LEAVE
from procession.pytest.wire import Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Told = dict[str, Any]

ENDING = 30.0  # seconds that a template may take to end the ranks of a test, beyond its time limit


class Parent(Reporting):
    """Runs the marked tests of a session in ranks."""

    def __init__(self, session: Any) -> None:
        super().__init__(session.config)
        marked = self._note_items(session)
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
        for item in marked:
            self._stand_in(item, self._came)

    # -- a test

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

    def _request(self, item: Any, asked: Asked) -> Told:
        request = super()._request(item, asked)
        key = self._keeping.key_of(item, asked, request["nproc"])
        return {**request, "keep": key, "next": self._keeping.after(item)}

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

    def _exchanged(self, request: Told) -> Told:
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
        if self._line is None:
            return {}
        self._line.sock.settimeout(ENDING)
        try:
            self._line.send(message)
            while not self._making:
                kind, value = self._line.receive()
                if kind == "came":
                    return value
                if kind == "making":
                    self._making = value
        except (EOFError, OSError):
            pass
        return {}

    # -- hooks

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
