"""`--ranks-from-environment`: a session whose ranks a launcher has started, each with this line.

Theory of operation. Each process is a session of pytest that collects the same tests. Rank 0 goes
through them, and asks the first n ranks to run a test that is marked with `ranks(n)`, itself among
them; it runs any other test alone. What the ranks report is made one verdict as usual, and rank 0
reports it (`reporting`); the others write nothing. So the ranks are those of the launcher for the
whole session, with their MPI or CUDA contexts: they are not fresh.

A thread of rank 0 hears the ranks while they run a test, as the main thread runs it, too. No rank
can be ended alone: if a rank has failed or was lost and others do not end, or the time is over, the
only way is to end the session, which the launcher notices. So is it if the launcher ends this
process (SIGTERM) in a test: the thread hears of that by the descriptor that Python wakes up, also
while the main thread waits in native code.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import sys
import threading
import time
import traceback
from itertools import pairwise

import pytest
from _pytest.runner import SetupState, runtestprotocol

from procession.explain.stacks.merge import format as format_stacks
from procession.explain.stacks.text import Stack
from procession.pytest import inrank, renew
from procession.pytest.conversation import Conversation
from procession.pytest.marks import asked_of, count_of
from procession.pytest.meeting import ALL_THERE, NotTogether, door_of, gathered, joined
from procession.pytest.place import of_this_process
from procession.pytest.reporting import Reporting
from procession.pytest.stackframes import frames_of, noted, of_processes
from procession.pytest.talk import Rank, pair
from procession.values.figures import format_ranks
from procession.worker import stackfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from procession.pytest.place import Place
    from procession.pytest.talk import Line

    Told = dict[str, Any]
    GiveUp = Callable[[Told, list[int], str], None]

NOT_TOGETHER = {"usepdb": "--pdb", "trace": "--trace", "numprocesses": "-n"}
ENDED = "the launcher has ended this session (SIGTERM)"
AFTER_SIGTERM = 0.5  # seconds in which ranks can come to the end of their test by themselves
FOR_STACKS = 1.0  # seconds
FOR_REPORT = 10.0  # seconds that rank 0 has for its report when the launcher ends all
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
    kind = Other if place.number else First
    config.pluginmanager.register(kind(config, place), "ranks-launched")


class Other:
    """The session in a rank that is not rank 0: it runs what rank 0 asks for."""

    def __init__(self, config: Any, place: Place) -> None:
        self._config = config
        self._place = place
        self._line: Line | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Meet rank 0, and write nothing."""
        stackfile.offer()  # the launcher may be one that knows nothing of it
        renew.silence(self._config)
        try:
            self._line = joined(door_of(self._place), self._place.number, ALL_THERE)
        except NotTogether as e:
            raise pytest.UsageError(f"--ranks-from-environment: {e}") from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        """Run the tests that rank 0 names."""
        assert self._line is not None
        names = {item.nodeid: item for item in session.items}
        self._line.send([*names])
        begun = inrank.next_request(self._line)
        if begun is None:
            return True  # rank 0 says why
        signal.signal(signal.SIGTERM, self._let_report)
        for name in WRITERS:
            plugin = self._config.pluginmanager.get_plugin(name)
            if plugin is not None:
                self._config.pluginmanager.unregister(plugin)
        renew.capture(self._config, begun["files"], self._place.number)
        own_directory = self._config._tmp_path_factory
        session.items[:] = [names[name] for name in begun["names"]]
        try:
            while (request := inrank.next_request(self._line)) is not None:
                rank = Rank(request, self._line, self._place.number)
                inrank.run_item(session, rank, request)
                rank.tell("done", {})
        finally:
            self._config._tmp_path_factory = own_directory
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

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: Any) -> None:
        """Leave it to rank 0 to tell what the tests came to.

        A launcher ends all ranks when the first one ends with another code than 0.
        """
        if session.exitstatus == pytest.ExitCode.TESTS_FAILED:
            session.exitstatus = pytest.ExitCode.OK

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Leave the others."""
        if self._line is not None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._line.close()


class First(Reporting):
    """The session in rank 0, which has all tests run, and reports."""

    def __init__(self, config: Any, place: Place) -> None:
        super().__init__(config)
        self._place = place
        self._own, self._theirs = pair()
        self._lines: dict[int, Line] = {}
        self._pids: dict[int, int] = {}
        self._signals, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._why_over = ""
        self._alone = False  # a test runs that is not one of ranks: a SIGTERM fails it
        self._next: int | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Meet the others."""
        stackfile.offer()
        try:
            self._lines, self._pids = gathered(self._place)
        except NotTogether as e:
            raise pytest.UsageError(f"--ranks-from-environment: {e}") from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        """Run all tests, those with ranks in several."""
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        self._note_items(session)
        self._agree(session)
        signal.signal(signal.SIGTERM, self._ended)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        # Fixtures of session scope know the number of ranks, so they do not outlive it.
        pairs = [*pairwise(session.items), *((item, None) for item in session.items[-1:])]
        for item, after in pairs:
            following = after if after and self._members(item) == self._members(after) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self._alone = False
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            if self._why_over:
                pytest.exit(self._why_over, returncode=1)
        return True

    def _agree(self, session: Any) -> None:
        """Tell the others the order of the tests. Raises UsageError if theirs are not the same."""
        names = [item.nodeid for item in session.items]
        self._directories = self._config._tmp_path_factory
        self._base = str(self._directories.getbasetemp())
        for rank, line in self._lines.items():
            try:
                odd = {*line.receive()} ^ {*names}
            except OSError:
                pytest.exit(f"rank {rank} has ended", returncode=1)
            if odd:
                said = f"rank {rank} and rank 0 have not the same tests: {min(odd)}"
                raise pytest.UsageError(f"--ranks-from-environment: {said}")
        for line in self._lines.values():
            line.send_if_there({"names": names, "files": self._base})

    def _members(self, item: Any) -> int:
        """Say how many ranks a test has; 0 if it is none in ranks, -1 if nobody can say."""
        try:
            asked = asked_of(item)
            return 0 if asked is None else count_of(item, asked)
        except ValueError:
            return -1

    def _ended(self, number: int, _frame: object) -> None:
        self._why_over = ENDED
        os.write(self._wake, bytes([number]))  # a test may have taken `set_wakeup_fd` for itself
        if self._alone:
            self._alone = False
            pytest.fail(ENDED, pytrace=False)

    # -- a test

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> bool | None:
        """Have a test run in its ranks, and then report it as any other."""
        if item not in self._marked:
            self._alone = True
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self._next = None if nextitem is None else self._number[nextitem]
        self._report(item, self._came(item), nextitem)
        return True

    def _report(self, item: Any, came: Told, following: Any) -> None:
        self._stand_in(item, lambda _: came)
        item._report_sections.clear()  # what the phases have captured here is in what came
        runtestprotocol(item, nextitem=following)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _asked(self, item: Any, request: Told) -> Told:
        members, size = request["nproc"], self._place.size
        if members > size:
            return {"skipped": f"{members} ranks wanted, and the session has {size}"}
        store = os.path.join(self._base, f"store_{self._count}")
        request = {**request, "method": "fork", "next": self._next, "store": store}

        def give_up(came: Told, undone: list[int], said: str) -> None:
            self._give_up(item, {**came, "limit": request["timeout"]}, undone, said)

        lines = {r: line for r, line in self._lines.items() if r < members} | {0: self._theirs}
        talk = SessionTalk(lines, request, self._signals, give_up)
        hearing = threading.Thread(target=talk.run, name="procession-hearing", daemon=True)
        hearing.start()
        for rank in range(1, members):
            lines[rank].send_if_there(request)
        rank = Rank(request, self._own, 0)
        try:
            inrank.run_item(item.session, rank, request)
        finally:
            self._report_again()
        rank.tell("done", {})
        hearing.join()
        lost = [f"rank {rank} has ended" for rank in range(members) if rank not in lines]
        self._why_over = "; ".join(filter(None, (self._why_over, *lost)))
        if "stacks" in talk.came:
            self._interrupted = (item.nodeid, talk.came["stacks"])
        return talk.came

    def _report_again(self) -> None:
        """Be what reports again, after this process was a rank."""
        self._config._tmp_path_factory = self._directories
        inrank.report_no_more(self._config)

    def _give_up(self, item: Any, came: Told, undone: list[int], said: str) -> None:
        """End the session in the middle of a test, with a report of what is known.

        undone: ranks that are not at its end, and live. This runs in another thread than the test,
        which may be where no exception reaches it. Fixtures are not torn down: they may wait for
        other ranks.
        """
        try:
            session, plugins = item.session, self._config.pluginmanager
            capture = plugins.get_plugin("capturemanager")
            if capture is not None:
                capture.suspend_global_capture(in_=True)
                if 0 in undone:
                    texts = zip(("stdout", "stderr"), capture.read_global_capture(), strict=True)
                    found = [(f"Captured {name}", text) for name, text in texts if text]
                    came["ranks"][0]["output"] = found
            for rank in undone:
                if rank:
                    came["ranks"][rank]["output"] = renew.captured(self._base, rank)
            for told in came["ranks"]:  # the session ends anyway
                ends = ("interrupt", "exit")
                told["reports"] = [r for r in told["reports"] if not any(e in r for e in ends)]
            own = [_own_stack()] if 0 in undone else []
            pids = {rank: pid for rank, pid in self._pids.items() if rank in undone}
            stacks = own + of_processes(pids, FOR_STACKS)
            came["stacks"] = format_stacks(noted(stacks, came["ranks"]))
            session._setupstate = SetupState()
            self._report_again()
            self._report(item, came, None)
            left = len(session.items) - self._number[item] - 1
            unrun = f"; {left} not run" if left else ""
            session.shouldfail = f"{said}: the session cannot go on{unrun}"
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            self._config.hook.pytest_sessionfinish(session=session, exitstatus=session.exitstatus)
            reporter = plugins.get_plugin("terminalreporter")
            if reporter is not None:
                reporter._tw.flush()
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(1)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None]:
        """From now on, SIGTERM has no effect: the report is being written."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        yield

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Let the others go."""
        for line in self._lines.values():
            line.close()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class SessionTalk(Conversation):
    """The conversation of rank 0. signals: where signals are noted.

    give_up: ends the session in the middle of a test, see `First`.
    """

    PATIENCE = LOST = 20.0  # to end a test that failed in a rank

    def __init__(
        self, lines: dict[int, Line], request: Told, signals: int, give_up: GiveUp
    ) -> None:
        super().__init__(lines, request, time.monotonic())
        self.came: Told = {}
        self._signals = signals
        self._give_up = give_up
        self._said = f"had not ended {self.PATIENCE:g} s after another had failed"

    def run(self) -> None:
        """Hear all ranks to their end; `came` is what came of it."""
        try:
            self.came = self.held()
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
            os._exit(1)  # rank 0 would wait for ever

    def _begin(self) -> None:
        self._select.register(self._signals, selectors.EVENT_READ, self._hear_signals)

    def _hear_signals(self) -> None:
        if signal.SIGTERM in os.read(self._signals, 4096):
            self._said = "had not ended when the launcher ended this session (SIGTERM)"
            self._end_others_at = time.monotonic() + AFTER_SIGTERM

    def _is_done(self, rank: int) -> bool:
        return super()._is_done(rank) or rank not in self._lines

    def _is_over(self) -> bool:
        return all(map(self._is_done, range(self._size)))

    def _end(self, timeout: bool = False) -> None:
        undone = [rank for rank in range(self._size) if not self._is_done(rank)]
        said = "had not ended in time" if timeout else self._said
        self._note_lost()
        came = {**self._came, "timeout": timeout, "took": time.monotonic() - self._began}
        self._give_up(came, undone, f"{format_ranks(undone)} {said}")

    def _note_lost(self) -> None:
        self._came["here"] = 0
        for told in self._ranks:
            if "silent_at" in told:
                told.update(crash="has ended", crashed_at=told["silent_at"])

    def _conclude(self) -> None:
        self._note_lost()
        stacks = [
            Stack(rank, None, frames=tuple(map(tuple, said["at"]))).as_dict()
            for rank, told in enumerate(self._ranks)
            for said in told["reports"]
            if "interrupt" in said
        ]
        if stacks:
            self._came["stacks"] = format_stacks(noted(stacks, self._ranks))


def _own_stack() -> dict[str, Any]:
    """Take the stack of the main thread, from another one.

    It is not asked for by the signal, as the others are: what `faulthandler` writes then includes
    the stack of this thread, which runs meanwhile; that can crash (seen in Python 3.11).
    """
    main = threading.main_thread().ident
    inner = sys._current_frames().get(main or 0)  # pyright: ignore[reportPrivateUsage]
    return Stack(0, os.getpid(), frames=tuple(frames_of(traceback.walk_stack(inner)))).as_dict()
