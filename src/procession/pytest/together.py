"""`--ranks-from-environment`: a session whose ranks a launcher has started, each with this line.

Theory of operation. Each process is a session of pytest that collects the same tests. They run the
same items in the order of rank 0: a test that is marked with `ranks(n)` in the first n of them, any
other in rank 0 alone. What the ranks report is made one verdict as usual (`verdict`), and rank 0
reports it; the others write nothing. So the ranks are those of the launcher for the whole session,
with their MPI or CUDA contexts: they are not fresh, and a test that hangs ends the session (`hub`).
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import threading
import traceback
from functools import partial
from itertools import pairwise

import pytest
from _pytest.runner import SetupState

from procession.explain.stacks.merge import format as format_stacks
from procession.explain.stacks.text import Stack
from procession.pytest import fixtures, inrank, renew, words
from procession.pytest.hub import Hub, NotTogether, joined
from procession.pytest.marks import asked_of, count_of, usual_limit
from procession.pytest.passing import pass_on
from procession.pytest.place import of_this_process
from procession.pytest.stackframes import frames_of, noted, of_processes
from procession.pytest.talk import Rank
from procession.pytest.verdict import Verdict, merged, phases_of
from procession.worker import stackfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from procession.pytest.place import Place
    from procession.pytest.wire import Line

NOT_TOGETHER = {"usepdb": "--pdb", "trace": "--trace", "numprocesses": "-n"}
FOR_STACKS = 1.0  # seconds
FOR_REPORT = 10.0  # seconds that rank 0 has for its report when the launcher ends all
MOST_OUTPUT = 1 << 20  # bytes of a stream of a rank
WRITERS = ("lfplugin", "nfplugin", "stepwiseplugin")  # of files of the session


def begin(config: Any) -> None:
    """Have the session run as the ranks of a launcher. Raises UsageError where there is none."""
    for option, name in NOT_TOGETHER.items():
        if config.getoption(option, None):
            raise pytest.UsageError(f"--ranks-from-environment and {name} exclude each other")
    try:
        place = of_this_process()
    except ValueError as e:
        raise pytest.UsageError(f"--ranks-from-environment: {e}") from None
    if place.number:
        config.option.xmlpath = None
    config.pluginmanager.register(Together(config, place), "ranks-together")


class Together:
    """The session in one of its ranks."""

    def __init__(self, config: Any, place: Place) -> None:
        self._config = config
        self._place = place
        self._hub: Hub | None = None
        self._line: Line | None = None
        self._own_directory: Any = None
        self._interrupted: tuple[str, str] | None = None  # a test, and where its ranks were

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Meet the others; rank 0 alone writes."""
        stackfile.offer()  # the launcher may be one that knows nothing of it
        try:
            if self._place.number:
                renew.silence(self._config)
                self._line = joined(self._place)
            else:
                self._hub = Hub(self._place)
                self._line = self._hub.own
        except NotTogether as e:
            raise pytest.UsageError(f"--ranks-from-environment: {e}") from None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: Any) -> None:
        """Bring the tests into the order of rank 0."""
        names = [item.nodeid for item in session.items]
        assert self._line is not None
        self._line.send(("names", names))
        self._line.send(("done", None))
        if self._hub is not None:
            ranks = self._hub.came()["ranks"]
            base = str(self._config._tmp_path_factory.getbasetemp())
            order: Any = (names, base)
            for number, told in enumerate(ranks):
                odd = set(told.get("names", ())) ^ set(names)
                if odd:
                    order = f"rank {number} and rank 0 have not the same tests: {min(odd)}"
            self._hub.end_with_report()
            self._hub.release(order)
        else:
            signal.signal(signal.SIGTERM, self._let_report)
            order = self._hear()
            for name in WRITERS:
                plugin = self._config.pluginmanager.get_plugin(name)
                if plugin is not None:
                    self._config.pluginmanager.unregister(plugin)
        if isinstance(order, str):
            raise pytest.UsageError(f"--ranks-from-environment: {order}")
        names, self._base = order
        by_name = {item.nodeid: item for item in session.items}
        session.items[:] = [by_name[name] for name in names]
        self._own_directory = self._config._tmp_path_factory
        renew.use_directory(self._config, os.path.join(self._base, "ranks"))

    def _hear(self) -> Any:
        assert self._line is not None
        try:
            return self._line.receive()
        except (EOFError, OSError):
            pytest.exit("rank 0 has ended", returncode=1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        """Run all tests, in step with the other ranks."""
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        mine = [item for item in session.items if self._is_mine(item)]
        # Fixtures of session scope know the number of ranks, so they do not outlive it.
        following = {a: b for a, b in pairwise(mine) if self._members(a) == self._members(b)}
        for number, item in enumerate(session.items):
            fixtures.store_file = os.path.join(self._base, f"store_{number}")
            self._run(item, following.get(item), self._is_mine(item))
            stop = self._in_step(session)
            if stop and self._hub is None:
                break  # rank 0 says why
            if stop == "fail":
                raise session.Failed(session.shouldfail)
            if stop:
                raise session.Interrupted(session.shouldstop)
        return True

    def _let_report(self, number: int, _frame: object) -> None:
        """Stay where this rank is until rank 0 has looked, and reported; then die of the signal.

        Some launchers kill all when the first one has ended.
        """
        signal.signal(number, signal.SIG_DFL)
        assert self._line is not None
        poll = select.poll()
        poll.register(self._line, select.POLLRDHUP)
        poll.poll(FOR_REPORT * 1000)
        os.kill(os.getpid(), number)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say where the ranks were when a test was interrupted."""
        if self._interrupted is not None:
            words.write_places(terminalreporter, *self._interrupted)

    def _in_step(self, session: Any) -> str:
        """Agree whether to go on."""
        assert self._line is not None
        if self._hub is None:
            return self._hear()
        stop = "fail" if session.shouldfail else "stop" if session.shouldstop else ""
        self._hub.release(stop)
        if self._hub.why_over:
            pytest.exit(self._hub.why_over, returncode=1)
        return stop

    def _members(self, item: Any) -> int:
        """Say how many ranks a test has; 0 if it is none in ranks, -1 if nobody can say."""
        try:
            asked = asked_of(item)
            return 0 if asked is None else count_of(item, asked)
        except ValueError:
            return -1

    def _is_mine(self, item: Any) -> bool:
        members = self._members(item)
        return members >= 0 and self._place.number < (members or 1) <= self._place.size

    def _run(self, item: Any, following: Any, mine: bool) -> None:
        """Run one test, or wait while others do."""
        assert self._line is not None
        try:
            asked = asked_of(item)
            members = self._members(item)
            timeout = 0.0 if asked is None else asked.timeout
            if timeout is None:
                timeout = usual_limit(self._config)
        except ValueError as e:
            self._finish(item, Verdict("failed", headline=f"@pytest.mark.ranks: {e}", certain=True))
            return
        if asked is None:
            if mine:
                assert self._hub is not None  # it is rank 0
                self._hub.alone = True
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                self._hub.alone = False
            self._finish(item, None)
            return
        if members > self._place.size:
            reason = f"{members} ranks wanted, and the session has {self._place.size}"
            self._finish(item, Verdict("skipped", reason=reason))
            return
        request = {"nproc": members, "timeout": timeout, "backend": asked.backend, "method": "fork"}
        if self._hub is not None:
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            give_up = partial(self._give_up, item, timeout)
            self._hub.begin(members, timeout, give_up)
        if mine:
            rank = Rank(request, self._line, self._place.number)
            try:
                inrank.run_here(item, rank, following)
            finally:
                fixtures.ours = None
                reporter = self._config.pluginmanager.get_plugin("ranks")
                self._config.pluginmanager.unregister(reporter)
        self._finish(item, None, timeout)

    def _finish(self, item: Any, verdict: Verdict | None, timeout: float | None = None) -> None:
        """Tell that this rank is done; in rank 0, report what all ranks have come to."""
        assert self._line is not None
        self._line.send(("done", None))
        if self._hub is None:
            return
        came = self._hub.came()
        if verdict is None and timeout is None:
            return  # a test without ranks, which was reported
        if timeout is None:
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        if verdict is None:
            verdict = merged(came, timeout or 0.0)
            places = _places(came["ranks"])
            if places.strip():
                self._interrupted = (item.nodeid, places)
            pass_on(self._config, came, item)
        _report(item, verdict, came)

    def _give_up(
        self, item: Any, timeout: float, came: Any, waiting: dict[int, int], said: str
    ) -> None:
        """End the session in the middle of a test, with a report of what is known.

        waiting: the pids of ranks that are not at the end of the test. This runs in the thread of
        the hub, as the main thread may be where no exception reaches it. Fixtures are not torn
        down: they may wait for other ranks.
        """
        try:
            session = item.session
            capture = self._config.pluginmanager.get_plugin("capturemanager")
            if capture is not None:
                capture.suspend_global_capture(in_=True)
            for rank, pid in waiting.items():
                if rank:
                    came["ranks"][rank]["output"] = _output_of(pid)
            own = [_own_stack()] if waiting.pop(0, None) is not None else []
            stacks = own + of_processes(waiting, FOR_STACKS)
            came["stacks"] = format_stacks(noted(stacks, came["ranks"]))
            _report(item, merged(came, timeout), came)
            left = len(session.items) - session.items.index(item) - 1
            unrun = f"; {left} not run" if left else ""
            session.shouldfail = f"{said}: the session cannot go on{unrun}"
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            session._setupstate = SetupState()
            self._config.hook.pytest_sessionfinish(session=session, exitstatus=session.exitstatus)
            reporter = self._config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                reporter._tw.flush()
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(1)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: Any) -> Generator[None]:
        """Let pytest remove its own directories, and rank 0 tell what the tests came to.

        A launcher ends all ranks when the first one ends with another code than 0.
        """
        if self._hub is not None:
            self._hub.reported()
        if self._own_directory is not None:
            self._config._tmp_path_factory = self._own_directory
        yield
        if self._place.number and session.exitstatus == pytest.ExitCode.TESTS_FAILED:
            session.exitstatus = pytest.ExitCode.OK

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Leave the others."""
        if self._hub is not None:
            self._hub.close()
        elif self._line is not None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._line.close()


def _own_stack() -> dict[str, Any]:
    """Take the stack of the main thread, from another one.

    It is not asked for by the signal, as the others are: what `faulthandler` writes then includes
    the stack of this thread, which runs meanwhile; that can crash (seen in Python 3.11).
    """
    main = threading.main_thread().ident
    inner = sys._current_frames().get(main or 0)  # pyright: ignore[reportPrivateUsage]
    return Stack(0, os.getpid(), frames=tuple(frames_of(traceback.walk_stack(inner)))).as_dict()


def _places(ranks: list[dict[str, Any]]) -> str:
    """Say where ranks were that were interrupted, "" if none was."""
    stacks = [
        Stack(rank, None, frames=tuple(map(tuple, said["at"]))).as_dict()
        for rank, told in enumerate(ranks)
        for said in told["reports"]
        if "interrupt" in said
    ]
    return format_stacks(noted(stacks, [{**told, "done": False} for told in ranks]))


def _output_of(pid: int) -> list[tuple[str, str]]:
    """Read what another rank has written in this test: to the files by which pytest captures."""
    found: list[tuple[str, str]] = []
    for name, fd in (("stdout", 1), ("stderr", 2)):
        path = f"/proc/{pid}/fd/{fd}"
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                continue  # it is not captured
            with open(path, "rb") as f:
                text = f.read(MOST_OUTPUT).decode(errors="replace")
        except OSError:
            continue  # it has ended
        if text:
            found.append((f"Captured {name}", text))
    return found


def _report(item: Any, verdict: Verdict, came: Any) -> None:
    """Report a test to the session."""
    for report in _reports(item, verdict, phases_of(came["ranks"][0])):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _reports(item: Any, verdict: Verdict, own: Any) -> list[Any]:
    """Make the reports of a test. own: what rank 0 says of its phases."""
    config = item.config
    if verdict.outcome in ("passed", "xfailed") or (verdict.outcome == "skipped" and own):
        hook = config.hook.pytest_report_from_serializable
        reports = [hook(config=config, data=dict(each)) for each in own]
        for report in reports:
            if report.when == "call":
                report.sections, report.duration = list(verdict.sections), verdict.seconds
        return reports
    longrepr: Any = None
    if verdict.outcome == "failed":
        longrepr = words.longrepr_of(config, verdict)
    elif verdict.outcome == "skipped":
        longrepr = (str(item.path), (item.location[1] or 0) + 1, f"Skipped: {verdict.reason}")
    outcomes = {"setup": "passed", "call": "passed", "teardown": "passed"}
    when = "setup" if verdict.outcome == "skipped" else verdict.when
    outcomes[when] = verdict.outcome
    if when == "setup":
        del outcomes["call"]
    return [
        pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords=dict.fromkeys(item.keywords, 1),
            outcome=outcome,  # pyright: ignore[reportArgumentType]
            longrepr=longrepr if phase == when else None,
            when=phase,  # pyright: ignore[reportArgumentType]
            sections=list(verdict.sections) if phase == when else [],
            duration=verdict.seconds if phase == when else 0.0,
            user_properties=item.user_properties,
        )
        for phase, outcome in outcomes.items()
    ]
