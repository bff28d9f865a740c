"""`--ranks-from-environment`: a session whose ranks a launcher has started, each with this line.

Theory of operation. Each process is a session of pytest that collects the same tests. Then rank 0
forks a process that reports: it goes through the tests, has the first n ranks run one that is
marked with `ranks(n)`, and rank 0 alone any other. What the ranks report is made one verdict as
usual (`reporting`); the ranks themselves write nothing. So the ranks are those of the launcher for
the whole session, with their MPI or CUDA contexts: they are not fresh.

No rank can be ended alone: if a rank has failed or was lost and others do not end, or the time is
over, the only way is to end the session. Rank 0 ends when the process that reports has ended, with
its exit code, and the launcher notices. If the launcher ends the ranks (SIGTERM) in a test, the
process that reports hears of that by the descriptor that Python wakes up, also while rank 0 waits
in native code.

    launcher ── rank 0 ── the process that reports
             └─ rank 1 ...
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import sys
import threading
import time
from multiprocessing import Pipe

import pytest
from _pytest import junitxml

from procession.explain.stacks.merge import format as format_stacks
from procession.explain.stacks.text import Stack
from procession.pytest import inrank, renew
from procession.pytest.conversation import Conversation
from procession.pytest.marks import asked_of, count_of
from procession.pytest.meeting import ALL_THERE, door_of, gathered, joined, not_together
from procession.pytest.place import place_of
from procession.pytest.processes import forked
from procession.pytest.reporting import ALONE, Reporting
from procession.pytest.stackframes import noted, of_processes
from procession.pytest.talk import HUNG_UP, FixtureRank, say
from procession.values.figures import format_ranks
from procession.worker import stackfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from typing import Any

    from procession.pytest.place import PlaceOfRank

    Told = dict[str, Any]

NOT_TOGETHER = {"usepdb": "--pdb", "trace": "--trace", "numprocesses": "-n"}
ENDED = "the launcher has ended this session (SIGTERM)"
AFTER_SIGTERM = 0.5  # seconds in which ranks can come to the end of their test by themselves
FOR_STACKS = 1.0  # seconds
FOR_REPORT = 10.0  # seconds that there are for the report when the launcher ends all
WRITERS = ("lfplugin", "nfplugin", "stepwiseplugin", "_cov")  # of files of the session


def begin_session(config: Any) -> None:
    """Have the session run as the ranks of a launcher. Raises UsageError where there is none."""
    for option, name in NOT_TOGETHER.items():
        if config.getoption(option, None):
            raise pytest.UsageError(f"--ranks-from-environment and {name} exclude each other")
    try:
        place = place_of(os.environ, os.getppid())
    except ValueError as e:
        raise not_together(str(e)) from None
    kind = Member if place.number else First
    config.pluginmanager.register(kind(config, place), "ranks-launched")


class Member:
    """The session in a rank: it runs what the process that reports asks for."""

    def __init__(self, config: Any, place: PlaceOfRank) -> None:
        self._config = config
        self._place = place
        self._line: Connection | None = None
        self._in_test = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Meet rank 0."""
        stackfile.offer()  # the launcher may be one that knows nothing of it
        inrank.prepare(self._config)
        try:
            self._line = joined(door_of(self._place), self._place.number, ALL_THERE)
        except OSError as e:
            raise not_together(str(e)) from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool | None:
        """Run the tests that are asked for."""
        assert self._line is not None
        names = {item.nodeid: item for item in session.items}
        self._line.send([*names])
        begun = inrank.next_request(self._line)
        if begun is not None:  # else rank 0 says why
            session.items[:] = [names[name] for name in begun["names"]]
            self._serve(session, self._line, begun["files"])
        # A launcher ends all ranks when the first one ends with another code than 0.
        session.testsfailed = 0
        return True

    def _serve(self, session: Any, line: Connection, files: str) -> None:
        signal.signal(signal.SIGTERM, self._ended)
        junitxml.pytest_unconfigure(self._config)
        for name in WRITERS:
            self._config.pluginmanager.unregister(name=name)
        renew.process(self._config, files, self._place.number)
        try:
            while (request := inrank.next_request(line)) is not None:
                rank = FixtureRank(request, line, self._place.number)
                self._in_test = True
                inrank.run_item(session, rank, request)
                renew.save_measures(go_on=True)
                self._in_test = False
                rank.tell("done", {})
        except KeyboardInterrupt:  # between two tests
            said = f"raised by rank {self._place.number} of {self._place.size}"
            say(line, ("report", {"interrupt": said}))
            raise

    def _ended(self, number: int, _frame: object) -> None:
        """Stay where this rank is until that is reported; then die of the signal.

        Some launchers kill all when the first one has ended.
        """
        signal.signal(number, signal.SIG_DFL)
        assert self._line is not None
        poll = select.poll()
        poll.register(self._line, select.POLLRDHUP)
        poll.poll(FOR_REPORT * 1000)
        os.kill(os.getpid(), number)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Leave the others."""
        if self._line is not None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._line.close()


class First(Member):
    """The session in rank 0, which forks the process that reports."""

    def __init__(self, config: Any, place: PlaceOfRank) -> None:
        super().__init__(config, place)
        self._lines: dict[int, Connection] = {}
        self._pids: dict[int, int] = {}
        self._code = 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Meet the others."""
        stackfile.offer()
        self._lines, self._pids = gathered(self._place)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool | None:
        """Fork, and go on in two processes: the other one has pytest's own loop."""
        config = self._config
        if session.testsfailed and not config.option.continue_on_collection_errors:
            return None  # pytest says it
        self._agree([item.nodeid for item in session.items])
        files = str(config._tmp_path_factory.getbasetemp())
        self._line, line = Pipe()
        signals, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        lines, pids = {0: line, **self._lines}, {0: os.getpid(), **self._pids}
        signal.signal(signal.SIGTERM, self._ended)  # a rank may be lost before this one serves
        pid = forked()
        if not pid:
            self._line.close()
            config.pluginmanager.unregister(self)
            reporter = Reporter(session, lines, pids, signals, files)
            os.close(self._wake)
            config.pluginmanager.register(reporter, "ranks-launched")
            return None
        os.close(signals)
        for each in lines.values():
            each.close()
        self._lines.clear()
        inrank.prepare(config)
        waiting = threading.Thread(target=self._wait_for, args=(pid,), daemon=True)
        waiting.start()
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        try:
            self._serve(session, self._line, files)
        finally:
            self._line.close()
            waiting.join()
        if self._code:  # not even plugins may take this session for one that is well
            pytest.exit("the process that reports has said why", returncode=self._code)
        return True

    def _agree(self, names: list[str]) -> None:
        """See that all ranks have the same tests. Raises UsageError if not."""
        for rank, line in self._lines.items():
            try:
                odd = {*line.recv()} ^ {*names}
            except HUNG_UP:
                pytest.exit(f"rank {rank} has ended", returncode=1)
            if odd:
                raise not_together(f"rank {rank} and rank 0 have not the same tests: {min(odd)}")

    def _wait_for(self, pid: int) -> None:
        """Wait for the process that reports; if it has given a test up, there is no way back."""
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._code = code if code >= 0 else 1
        if self._in_test:
            os._exit(self._code or 1)

    def _ended(self, number: int, _frame: object) -> None:
        os.write(self._wake, bytes([number]))  # a test may have taken `set_wakeup_fd` for itself

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Leave the others."""
        for line in self._lines.values():
            line.close()
        signal.set_wakeup_fd(-1)
        super().pytest_unconfigure()


class Reporter(Reporting):
    """The process that reports.

    lines, pids: of the ranks. signals: where those that rank 0 gets are noted. files: the directory
    of what ranks write.
    """

    def __init__(
        self,
        session: Any,
        lines: dict[int, Connection],
        pids: dict[int, int],
        signals: int,
        files: str,
    ) -> None:
        super().__init__(session)
        self._lines = lines
        self.pids = pids
        self.signals = signals
        self.files = files
        self._over: Told | None = None  # the test after which the session cannot go on
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # the ranks say what follows
        for item in session.items:
            self._limits.setdefault(item, 0.0)
            self._stand_in(item)
        begun = {"names": [item.nodeid for item in session.items], "files": files}
        for rank, line in lines.items():
            if rank:
                say(line, begun)

    def _asked(self, item: Any, request: Told) -> Told:
        if self._over is not None:
            return self._over  # a plugin has it run once more
        members, size = request["nproc"], len(self._lines)
        if members > size:
            return {"skipped": f"{members} ranks wanted, and the session has {size}"}
        request.update(method="fork", store=os.path.join(self.files, f"store_{self._count}"))
        request["next"] = self._session.items.index(self._after) if self._goes_on(members) else None
        lines = {rank: self._lines[rank] for rank in range(members)}
        talk = SessionTalk(lines, request, self)
        for line in lines.values():
            say(line, request)
        came = talk.held()
        lost = [f"rank {rank} has ended" for rank in range(members) if rank not in lines]
        if talk.why or lost:
            unrun = len(self._session.items) - request["item"] - 1
            left = f"{unrun} not run" if talk.why and unrun else ""
            self._session.shouldfail = "; ".join(filter(None, (talk.why, *lost, left)))
            self._over = came
        if not talk.why and "stacks" in came:
            self._interrupted = (item.nodeid, came["stacks"])
        return came

    def _goes_on(self, members: int) -> bool:
        """Whether the next test has as many ranks.

        Fixtures of session scope know the number of ranks, so they do not outlive it.
        """
        try:
            asked = asked_of(self._after) if self._after is not None else None
            return self._after is not None and members == count_of(self._after, asked or ALONE)
        except ValueError:
            return False

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Let the ranks go, and end: what stands at the exit of this process is rank 0's."""
        try:
            capture = self._config.pluginmanager.get_plugin("capturemanager")
            if capture is not None:
                capture.stop_global_capturing()
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        finally:
            os._exit(self._session.exitstatus)


class SessionTalk(Conversation):
    """The conversation with ranks of a launcher. `why`: the session cannot go on after it."""

    PATIENCE = LOST = 20.0  # to end a test that failed in a rank
    GONE = "has ended"

    def __init__(self, lines: dict[int, Connection], request: Told, reporter: Reporter) -> None:
        super().__init__(lines, request)
        self.why = ""
        self._of = reporter
        self._given_up = False

    def _begin_listening(self) -> None:
        self._select.register(self._of.signals, selectors.EVENT_READ, self._hear_signals)

    def _hear_signals(self) -> None:
        heard = os.read(self._of.signals, 4096)
        if heard and signal.SIGTERM not in heard:
            return
        self._select.unregister(self._of.signals)
        self._end_others_at = time.monotonic() + AFTER_SIGTERM
        if heard:
            self.why = self._came["over"] = ENDED

    def _undone(self) -> list[int]:
        return [rank for rank in range(self._size) if not self._is_done(rank)]

    def _is_done(self, rank: int) -> bool:
        return super()._is_done(rank) or rank not in self._lines

    def _is_over(self) -> bool:
        return self._given_up or not self._undone()

    def _end(self, late: str) -> None:
        self._came["over"] = late or self._came["over"]
        why = f"{format_ranks(self._undone())} had not ended: the session cannot go on"
        self.why = "; ".join(filter(None, (self.why, why)))
        self._given_up = True

    def _conclude(self) -> None:
        undone = self._undone()
        stacks = [
            Stack(rank, None, frames=tuple(map(tuple, said["at"]))).as_dict()
            for rank, told in enumerate(self._ranks)
            for said in told["reports"]
            if "at" in said
        ]
        if undone:
            stacks = of_processes({rank: self._of.pids[rank] for rank in undone}, FOR_STACKS)
        for rank in undone:
            self._ranks[rank]["output"] = renew.captured(self._of.files, rank)
        if stacks:
            self._came["stacks"] = format_stacks(noted(stacks, self._ranks))
