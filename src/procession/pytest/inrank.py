"""A rank: it runs one test with pytest's own protocol, and reports the outcome to pytest's process.

Theory of operation. The process is a fork of one that has collected and run nothing, so pytest's
session, its plugins and the item are in memory. What belongs to one process is made anew (`renew`);
then all hooks of a test are called as in any session, but nobody reports: `_Reporter` takes the
reports of the phases and sends them on. A failure is sent as soon as it is known, for the teardown
of a rank that failed may wait for the others.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from functools import partial

import pytest

from procession.pytest import fixtures, processes, renew, sharedfixtures
from procession.pytest.meeting import joined
from procession.pytest.talk import HUNG_UP, FixtureRank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from multiprocessing.connection import Connection
    from typing import Any


DOOR = "PROCESSION_PYTEST_DOOR"  # the variable by which a rank finds who hears it


class Program:
    """What an agent that is a fork of the spare runs, and a rank that is a fresh interpreter.

    session: pytest's, which has collected.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._streams = tuple(map(os.dup, (1, 2)))  # an agent has none

    def __call__(self) -> None:
        """Be a rank: run the test that it is asked for; if ranks are kept, all that it is."""
        session = self._session
        line = joined(os.environ.pop(DOOR), int(os.environ["RANK"]))
        request = next_request(line)
        if request is None:
            return
        begin_rank(session.config, request["files"])
        kept = request["method"] == "keep"
        while request is not None:
            rank = FixtureRank(request, line)
            run_item(session, rank, request)
            tell_done(rank, last=request["next"] is None)
            request = next_request(line) if kept else None
        if kept:
            session._setupstate.teardown_exact(None)
            fixtures.end_process_group()

    def share(self, item: int, tell: Callable[[str, str], None]) -> None:
        """Make the shared fixtures of a test, in an agent; ranks are forks of what is there then.

        tell: reports to pytest's process; see `agent.protocol`.
        """
        here = os.getpid()
        for fd, number in zip(self._streams, (1, 2), strict=True):
            os.dup2(fd, number)
        renew.one_thread()
        sharedfixtures.make_for(self._session.items[item], partial(tell, "sharing"))
        renew.one_thread()  # a fixture may have imported torch
        if os.getpid() != here:
            os._exit(1)  # a child that a fixture has forked has come out of it
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        tell("shared", "")


def next_request(line: Connection) -> dict[str, Any] | None:
    """Wait for what is to be run; None if that is nothing, or nobody is there."""
    try:
        return line.recv()
    except HUNG_UP:
        return None


def tell_done(rank: FixtureRank, last: bool = True) -> None:
    """Report that the test is over, and what is left of it. last: this process runs no other."""
    renew.save_measures(go_on=not last)
    helpers = processes.helpers()
    left = processes.left_behind(os.getpid(), helpers)
    threads = processes.going_on()
    rank.tell_done({"left": left, "helpers": helpers, "threads": threads})


def begin_rank(config: Any, files: str) -> None:
    """Make this process a rank's own, before its first test. files: the directory of its output."""
    renew.process(config, files, int(os.environ["RANK"]))
    debugger = config.pluginmanager.get_plugin("pdbinvoke")
    if debugger is not None:
        from procession.pytest.debugging import PostMortem

        config.pluginmanager.unregister(debugger)
        config.pluginmanager.register(PostMortem(debugger), "pdbinvoke")


def run_item(session: Any, rank: FixtureRank, request: dict[str, Any]) -> None:
    """Run the item that is asked for, and report its outcome."""
    item = session.items[request["item"]]
    following = None if request["next"] is None else session.items[request["next"]]
    renew.use_directory(item.config, request["tmp"])
    fixtures.ours = rank
    _reporter.begin_test(rank)
    try:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return
    except pytest.exit.Exception as e:
        report: dict[str, Any] = {"exit": str(e.msg), "code": e.returncode}
    except KeyboardInterrupt as e:
        said = f"raised by rank {rank.number} of {rank.size} in {item.nodeid}"
        frames = reversed(traceback.extract_tb(e.__traceback__))
        at = [(frame.filename, frame.lineno, frame.name) for frame in frames]
        report = {"interrupt": said, "at": at}
    rank.tell("report", report)


def prepare(config: Any) -> None:
    """Have the tests of this process, and of what is forked from it, report as a rank does."""
    config.pluginmanager.register(_reporter, "ranks")
    renew.silence(config)


class _Reporter:
    """Stands where pytest's process has what reports: it sends on what is reported."""

    _in_phase = False
    _size = 0

    def begin_test(self, rank: FixtureRank) -> None:
        """A test begins."""
        self._other_size, self._size = rank.size != self._size, rank.size
        self._rank = rank

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> bool:
        """Run the phases; other plugins that would run them (again) have no part in it."""
        from _pytest.runner import runtestprotocol

        runtestprotocol(item, log=False, nextitem=nextitem)
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
        """Send each report when it is made: before the teardown, which may wait for others."""
        report = yield
        if self._in_phase:
            return report  # of a subtest, which reports itself
        hook = item.config.hook
        if call.when == "call":
            hook.pytest_report_teststatus(report=report, config=item.config)  # looks at subtests
        data = hook.pytest_report_to_serializable(config=item.config, report=report)
        data["monotonic"] = time.monotonic_ns()
        self._rank.tell("report", data)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        """A phase begins, and ends."""
        __tracebackhide__ = True
        self._in_phase = True
        try:
            return (yield)
        finally:
            self._in_phase = False

    pytest_runtest_teardown = pytest_runtest_call

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: Any) -> Generator[None, Any, Any]:
        """Tear down what was left for a test that these ranks did not run, as it was skipped."""
        __tracebackhide__ = True
        item.session._setupstate.teardown_exact(None if self._other_size else item)
        return (yield from self.pytest_runtest_call())

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Send the report of a subtest: no other is logged here."""
        if self._in_phase and hasattr(report, "context"):
            self._rank.tell("report", {"subtest": report._to_json()})

    def pytest_warning_recorded(self, warning_message: Any, when: str) -> None:
        """Send a warning of the test on."""
        if when != "runtest":
            return  # what came before the test, pytest's own process has said
        kind = warning_message.category
        said = (kind.__module__, kind.__name__, str(warning_message.message))
        where = (warning_message.filename, warning_message.lineno)
        self._rank.tell("report", {"warning": (*said, *where)})

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self) -> bool:
        """Leave time limits to who knows where all ranks are."""
        return True


_reporter = _Reporter()
