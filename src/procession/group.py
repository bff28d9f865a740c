"""`Group` and `Result`: a running group as its user holds it in hand."""

from __future__ import annotations

import atexit
import errno
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from signal import valid_signals

from procession.ends import harmless_report, rank_end, start_failed
from procession.errors import (
    GroupEnd,
    GroupFailed,
    Outcome,
    ProcessionError,
    RankEnd,
    SpecError,
    StartFailed,
)
from procession.events import Event
from procession.exit import Exit
from procession.forkserver.client import ForkServer
from procession.handlers import Environment, handlers_of, harmless_environment
from procession.lifecycle import Phase, Worker
from procession.output.plan import Output
from procession.placing import Placed
from procession.policy import Stop
from procession.results import exception_of, value_of
from procession.spawner import Spawner
from procession.spec import Function, Spec
from procession.supervisor import Supervisor
from procession.system.latch import Latch
from procession.values import Value
from procession.worker.frames import VALUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.control.reach import Reach
    from procession.output.console import Console

CONTROL = "PROCESSION_CONTROL"
SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
MARGIN = 15.0  # seconds beyond all deadlines of a group, for the launcher's own work


class Result(Value):
    """A group that ended without a failure.

    values: by rank; None for commands, scripts and modules, and for ranks that were ended before
    they returned. state: `Phase.SUCCEEDED` or `Phase.STOPPED`. ranks: how each ended, by rank.
    run_dir: the run's directory, "" where there is none.
    """

    values: list[Any]
    state: Phase
    ranks: tuple[RankEnd, ...]
    run_dir: str = ""


class Group:
    """Ranks that share fate. Made by `start`.

    A context manager: leaving the block stops the group if it still runs, and returns when it has
    ended. `await group` is `wait` for asyncio. Iteration gives the lifecycle events from the first
    on, and ends with the group; each iterator starts anew. Methods may be called from any thread.

    unread: after `stop_when_unread`, whether nobody reads our standard output any more.
    """

    def __init__(
        self,
        spec: Spec,
        output: Output | None = None,
        server: ForkServer | None = None,
        on_event: Callable[[Event], object] | None = None,
        control: bool | None = None,
    ) -> None:
        self.spec = spec
        self._thread: threading.Thread | None = None
        self._crash: BaseException | None = None
        self._outcome: Result | GroupFailed | None = None
        self._lock = threading.Lock()
        self._done = Latch()
        self._callbacks: list[Callable[[], None]] = []
        self._owner = os.getpid()
        self._controlled = os.environ.get(CONTROL) == "1" if control is None else control
        self._reach: Reach | None = None
        self._concludes_later = False
        self.unread = False
        try:
            self._spawner = Spawner(spec, output)
        except OSError as e:
            if e.errno not in SHORT:
                raise  # of what was asked for, not of this moment
            raise start_failed(spec, e) from e
        forked = server is not None
        try:
            server = server or self._spawner.lease()
            self._supervisor = Supervisor(spec, self._spawner, server)
        except OSError as e:
            self._spawner.close(server, clean=False)
            raise start_failed(spec, e) from e
        except BaseException:
            self._spawner.close(server, clean=False)
            raise
        if on_event is not None:
            self._tell(on_event)
        if not forked:  # a fork of the caller (start method "fork") is not kept waiting for it
            for handler in handlers_of(self._spawner.asked):
                self._tell(handler)

    def _tell(self, handler: Callable[[Event], object]) -> None:
        """Have a handler called with each event; it may also have variables for the ranks."""
        self._supervisor.journal.subscribe(handler)
        give: Environment | None = getattr(handler, "environment", None)
        if callable(give):
            self._spawner.environments.append(harmless_environment(handler, give))

    # -- running it

    def drive(self) -> None:
        """Start the group and supervise it in this thread, until it has ended."""
        self._thread = threading.current_thread()
        _groups.add(self)
        try:
            if self._controlled:
                self._become_reachable()
            self._supervisor.run()
        except BaseException as e:
            self._crash = e
        finally:
            if self._reach is not None or self._spawner.run_dir.kept:
                self._conclude_now()
            _groups.discard(self)
            with self._lock:
                self._done.set()
                self._supervisor.started.set()
                callbacks, self._callbacks = self._callbacks, []
            self._supervisor.journal.wake()
            for call in callbacks:
                call()

    def _conclude_now(self) -> None:
        try:
            if not self._concludes_later or self._crash is not None:
                self.conclude()
        except Exception as e:
            self._crash = self._crash or e

    def _become_reachable(self) -> None:
        run = self._spawner.run_id
        try:
            from procession.control.reach import Reach

            self._reach = Reach(self, self._supervisor, self._spawner.streams, run)
            if self._has_directory:
                from procession.control.index import note_run

                note_run(run, self.run_dir, self.spec.name)
        except (OSError, ImportError):
            pass  # no descriptor is left, of which the start will have more to say

    def conclude_later(self) -> None:
        """Leave it to the caller of `drive` to call `conclude`. To be used before it."""
        self._concludes_later = True

    def conclude(self, code: int | None = None) -> None:
        """Write down how the group ended, where it has a directory, and tell who looks on.

        code: that of the command that ran it; None: what it should be.
        """
        reach = self._reach
        try:
            if (reach is not None and reach.visited) or (self.end and self._has_directory):
                from procession.control.ending import conclude

                conclude(self, reach, self.end, code)
        except (OSError, ImportError):
            pass  # no descriptor is left
        finally:
            if reach is not None:
                reach.close()

    def write_end(self, result: dict[str, Any], report: str) -> None:
        """Write into the run's directory how it ended."""
        if self._has_directory:
            self._spawner.run_dir.write_end(result, report)

    @property
    def _has_directory(self) -> bool:
        return self._spawner.run_dir.kept and os.path.isdir(self._spawner.run_dir.path)

    def stop_when_unread(self) -> None:
        """Have the group stopped when nobody reads our standard output any more; see `unread`.

        To be used before the group is started. Without this, it goes on without its audience.
        """

        def stop() -> None:
            self.unread = True
            if not self.state.final:
                self.stop(wait=False)

        self._spawner.streams.on_quiet = stop

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Have `call` called, in the supervisor's thread, when `fd` can be read.

        To be used in that thread, before the group is started.
        """
        self._supervisor.watch(fd, call)

    def drain_patiently(self) -> None:
        """Have all output shown at the end, however slowly it is read.

        Only a reader that goes, or a stop that is asked for, ends this. To be used before the group
        is started. Without this, it has two seconds.
        """
        self._supervisor.drain_seconds = None

    def lead_through(self, console: Console | None = None) -> None:
        """Have what ranks would write to our own streams directly come through the launcher.

        To be used before the group is started. console: shows both streams, in place of
        `sys.stdout` and `sys.stderr`; it is not closed.
        """
        self._spawner.streams.lead_through(console)

    def say(self, line: str) -> None:
        """Show a line on stderr, where it stands by itself among the lines of the ranks.

        For a group whose output is led through the launcher.
        """
        self._spawner.streams.say(line.encode(errors="backslashreplace") + b"\n")

    # -- looking

    @property
    def state(self) -> Phase:
        """Where the group is in its life."""
        return self._supervisor.phase

    @property
    def end(self) -> GroupEnd | None:
        """How it ended, None while it has not."""
        return self._supervisor.end

    @property
    def began(self) -> float:
        """When it began, in seconds of the monotonic clock."""
        events = self._supervisor.journal.events
        return events[0].at / 1e9 if events else time.monotonic()

    @property
    def stop_signal(self) -> int:
        """The signal by which its ranks are, or were, asked to end."""
        return self._supervisor.stop_signal

    @property
    def stopped_by(self) -> int:
        """The signal by which somebody in another terminal had it stopped, 0 if nobody did."""
        return self._reach.stopped_by if self._reach is not None else 0

    @property
    def run_id(self) -> str:
        """What it is found by from other terminals: the id of its run."""
        return (self._reach.name if self._reach is not None else "") or self._spawner.run_id

    @property
    def run_dir(self) -> str:
        """The run's directory, "" where there is none."""
        return self._spawner.run_dir.path if self._spawner.run_dir.kept else ""

    @property
    def placed(self) -> Placed:
        """The CPUs of the ranks, and how many threads they can use."""
        return self._spawner.places.placed

    @property
    def notes(self) -> list[str]:
        """What people should know of how the group is started, one line each."""
        return list(self._spawner.places.notes)

    def pids(self) -> dict[int, int]:
        """Give the process of each rank of the current attempt that has or had one."""
        return {r.rank: r.pid for r in list(self._supervisor.records) if r.pid is not None}

    def exit_of(self, rank: int) -> Exit | None:
        """Give the exit status of a rank of the current attempt, None while it is not gone."""
        states = self._supervisor.lifecycle.ranks
        if not states or states[rank].state is not Worker.EXITED:
            return None
        return self._supervisor.records[rank].exit

    def look(self) -> dict[str, Any]:
        """Describe the group as it is now, as plain data; see `looking.look_at` for the keys."""
        from procession.looking import look_at

        return look_at(self.spec, self._supervisor, self._spawner)

    def stacks(self, timeout: float = 1.0, *, native: bool = False) -> list[dict[str, Any]]:
        """Say where each rank that has a process is now, as plain data; it goes on meanwhile.

        timeout: seconds that ranks have to answer; to look at programs that cannot answer, py-spy,
        where it is installed, has as long again. native: with the frames of native code, by py-spy,
        which stops each rank for a moment. Keys: rank (its local number), pid, frames (of its
        main thread: lists of file, line and function, the innermost first), threads (all of them:
        `thread` and `frames`), state (what its process does, in words, where no frame is known,
        else ""), kernel (its stack in the kernel, where it may be read and no other is known),
        letter (of its process's state, as `ps` shows it), native (frames in words).
        `procession.stacks.merge.format` writes it for people. Raises ProcessionError for who is
        told of events, and in a fork.
        """
        if os.getpid() != self._owner:
            raise ProcessionError("this group belongs to the process that started it")
        if self._is_supervisor:
            raise ProcessionError("who is told of a group's events cannot wait for its stacks")
        from procession.looking import stacks_of

        return stacks_of(self._supervisor, timeout, native=native)

    def share_activity(self, elsewhere: int) -> int:
        """Let output of other machines' ranks count against silence; see `Supervisor`."""
        return self._supervisor.share_activity(elsewhere)

    @property
    def failure(self) -> RankEnd | None:
        """What failed first in this attempt, as far as it is known; for who is told of events."""
        failures = self._supervisor.lifecycle.failures
        if not failures:
            return None
        record = self._supervisor.records[failures[0]]
        return rank_end(self.spec, self._supervisor.lifecycle, record, self._spawner, False)

    def stacks_of_failure(self) -> list[dict[str, Any]]:
        """Give where the ranks were when the group failed, as `stacks` does, by local rank."""
        first = self.spec.node.first(self.spec.nproc)
        found = self._supervisor.last_look.stacks
        return [{**each.as_dict(), "rank": each.rank - first} for each in found]

    def values_told(self) -> dict[int, bytes]:
        """Give the values of a function's ranks as they sent them, pickled."""
        records = self._supervisor.records
        return {r.rank: bytes(r.told.body) for r in records if r.told and r.told.kind == VALUE}

    def errors_told(self) -> dict[int, dict[str, Any]]:
        """Give what ranks that failed told of it, as `results.exception_of` reads it."""
        records = self._supervisor.records
        return {r.rank: r.told.record for r in records if r.told and r.told.record}

    def subscribe(self, call: Callable[[Event], None]) -> None:
        """Have `call` called with each event, the past ones first.

        In the supervisor's thread, or in this one if the group is over. It must be quick. What it
        raises is logged, the first time.
        """
        self._supervisor.subscribe(call)

    def __iter__(self) -> Iterator[Event]:
        """Give every lifecycle event, from the first on; ends when the group has ended."""
        return self._supervisor.journal.follow(self._done.is_set)

    def __repr__(self) -> str:
        return f"<procession group {self.spec.name!r}: {self.spec.nproc} ranks, {self.state.name}>"

    # -- waiting

    def wait(self, timeout: float | None = None) -> Result:
        """Wait until the group has ended.

        timeout: seconds; None waits for ever. Raises GroupFailed if a rank failed, TimeoutError if
        the group still runs after `timeout` (it goes on). On KeyboardInterrupt the group is
        stopped, and a second one kills it; when it has ended, KeyboardInterrupt is raised.
        """
        if os.getpid() != self._owner:
            raise ProcessionError("this group belongs to the process that started it")
        if self._is_supervisor and not self._done.is_set():
            raise ProcessionError("who is told of a group's events cannot wait for the group")
        try:
            ended = self._done.wait(timeout)
        except KeyboardInterrupt:
            self._stop_on_interrupt()
            raise
        if not ended:
            raise TimeoutError(
                f"{self.spec.name} still runs after {timeout:g} s, and goes on: "
                "see stop() and kill()"
            )
        self._join()
        return self.result()

    def _stop_on_interrupt(self) -> None:
        self._supervisor.request_stop()
        try:
            self._done.wait(self._longest())
        except KeyboardInterrupt:
            self._supervisor.request_stop(kill=True)
            self._done.wait(self._longest())
        self._join()

    @property
    def _is_supervisor(self) -> bool:
        """Whether this is the thread that runs the group: for its own end it cannot wait."""
        return threading.current_thread() is self._thread

    def _longest(self) -> float:
        stop = self.spec.stop
        return stop.notice + stop.grace + stop.reap + MARGIN

    def _join(self) -> None:
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(MARGIN)

    def result(self) -> Result:
        """Give the result of a group that has ended, or raise GroupFailed."""
        with self._lock:
            if self._outcome is None:
                if self._crash is not None:
                    raise ProcessionError(
                        f"the supervisor of {self.spec.name} failed; its ranks were ended"
                    ) from self._crash
                end = self._supervisor.end
                if end is None:
                    raise ProcessionError(f"{self.spec.name} has not ended yet")
                self._outcome = self._result_of(end)
        if isinstance(self._outcome, GroupFailed):
            raise self._outcome.with_traceback(None)  # or it would grow each time
        return self._outcome

    def _result_of(self, end: GroupEnd) -> Result | GroupFailed:
        values: list[Any] = [None] * end.nproc
        if end.failures:
            kind = StartFailed if end.failures[0].outcome is Outcome.NOT_STARTED else GroupFailed
            failed = kind(end, harmless_report(end))
            told = self._supervisor.records[end.failures[0].rank].told
            if told is not None and isinstance(self.spec.program, Function):
                failed.__cause__ = exception_of(told.record)
            return failed
        for record in self._supervisor.records:
            if record.told is not None:
                try:
                    values[record.rank] = value_of(record.told)
                except Exception as e:
                    raise ProcessionError(
                        f"the value of rank {record.rank} cannot be unpickled here: "
                        f"{type(e).__name__}: {e}"
                    ) from e
                record.told = None if record.told.good else record.told
        ranks = tuple(sorted((*end.finished, *end.ended), key=lambda r: r.rank))
        return Result(values, self.state, ranks, end.run_dir)

    def __await__(self) -> Generator[Any, None, Result]:
        """Wait in asyncio. When the waiting task is cancelled, the group goes on."""
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            if not future.done():
                future.set_result(None)

        def from_supervisor() -> None:
            try:
                loop.call_soon_threadsafe(tell)
            except RuntimeError:
                pass  # the loop was closed meanwhile

        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(from_supervisor)
            else:
                future.set_result(None)
        yield from future
        self._join()
        return self.result()

    # -- ending

    def stop(
        self,
        signal: int | None = None,
        grace: float | None = None,
        wait: bool = True,
        notice: float | None = None,
    ) -> None:
        """End the group: stop signal, grace, SIGKILL. A group that has ended stays as it is.

        signal, grace: instead of those of its `Stop`; grace in seconds. For a group that is being
        ended already, another signal is sent besides, and a time can only become shorter. wait:
        return when the group has ended; otherwise at once. notice: seconds before the stop signal
        in which ranks may end by themselves; see `Stop`. What came of it, `wait` tells.
        Raises SpecError for a signal that does not exist or a time that is not one.
        """
        check_stop(signal, grace, notice)
        if os.getpid() != self._owner:
            return  # a fork of the launcher: the group is not its own to end
        self._supervisor.request_stop(number=signal, grace=grace, notice=notice)
        if wait and not self._is_supervisor:
            self._done.wait(self._longest() + (grace or 0.0) + (notice or 0.0))
            self._join()

    def send_signal(self, rank: int, signal: int, *, only_caught: bool = False) -> None:
        """Send a signal to a rank's process, as anybody might: its end is then its own failure.

        only_caught: only if the process has a handler for it, so that it does not die of it.

        A rank that has none, or is gone, gets nothing. Raises SpecError for a rank or a signal that
        does not exist.
        """
        if type(rank) is not int or rank not in range(self.spec.nproc):
            raise SpecError(f"there is no rank {rank!r}")
        if signal not in valid_signals():
            raise SpecError(f"there is no signal {signal!r}")
        self._supervisor.request_signal(rank, signal, only_caught)

    def signal_all(self, signal: int, *, only_caught: bool = False) -> None:
        """Send every rank a signal; see `send_signal`."""
        for rank in range(self.spec.nproc):
            self.send_signal(rank, signal, only_caught=only_caught)

    def expire(self, patience: float = 0.0) -> None:
        """Let a group that failed and is patient (see `Stop`) be so for `patience` seconds more."""
        self._supervisor.request_patience(patience)

    def kill(self, wait: bool = True) -> None:
        """End the group by SIGKILL, at once. wait: return when it has ended."""
        if os.getpid() != self._owner:
            return
        self._supervisor.request_stop(kill=True)
        if wait and not self._is_supervisor:
            self._done.wait(self._longest())
            self._join()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        except KeyboardInterrupt:
            self.kill()
            raise

    async def __aenter__(self) -> Group:
        return self

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await asyncio.to_thread(self.stop)

    def wait_started(self) -> None:
        """Wait until every rank has reached its program. Raises StartFailed if one did not."""
        try:
            self._supervisor.started.wait()
        except KeyboardInterrupt:
            self._stop_on_interrupt()
            raise
        if self.state is Phase.RUNNING or not self._start_failed():
            return
        self._done.wait(self._longest())
        self._join()
        self.result()

    def _start_failed(self) -> bool:
        return any(r.start_failed for r in self._supervisor.lifecycle.ranks)


def check_stop(signal: int | None, grace: float | None, notice: float | None) -> None:
    """Refuse a signal that does not exist, and times that are none. Raises SpecError."""
    given: dict[str, Any] = {"signal": signal, "grace": grace, "notice": notice}
    try:
        Stop(**{name: value for name, value in given.items() if value is not None}).check()
    except ValueError as e:
        raise SpecError(str(e)) from None


_groups: set[Group] = set()  # that run; weak references would swallow an interrupt now and then


def _stop_all() -> None:
    """Stop what still runs when the interpreter exits, all at the same time."""
    running = [g for g in list(_groups) if not g.state.final]
    for group in running:
        group.stop(wait=False)
    for group in running:
        group.stop()


def _forget_all() -> None:
    for group in _groups:
        if group._reach is not None:  # pyright: ignore[reportPrivateUsage]
            group._reach.forget()  # pyright: ignore[reportPrivateUsage]
    _groups.clear()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_forget_all)
