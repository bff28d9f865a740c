"""`Job`: a group over several nodes as its user holds it in hand; `Group` is its like for one."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping

from procession.ends import harmless_report
from procession.engines.driver import LEASE, Driver
from procession.engines.lifecycle import JobPhase
from procession.engines.work import Work
from procession.errors import (
    GroupEnd,
    GroupFailed,
    Outcome,
    ProcessionError,
    RankEnd,
    StartFailed,
)
from procession.events import Event
from procession.group import MARGIN, Result, check_stop
from procession.lifecycle import Phase
from procession.output.rundir import RunDir, masked_words
from procession.rankenv import Node
from procession.results import exception_of
from procession.spec import Function, Spec, words_of
from procession.summary import report_of, summary
from procession.system.latch import Latch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.engines.contract import Engine

PHASES = {
    JobPhase.GATHERING: Phase.STARTING,
    JobPhase.MEETING: Phase.STARTING,
    JobPhase.STARTING: Phase.STARTING,
    JobPhase.RUNNING: Phase.RUNNING,
    JobPhase.STOPPING: Phase.STOPPING,
    JobPhase.DECIDING: Phase.STOPPING,
    JobPhase.BACKOFF: Phase.BACKOFF,
    JobPhase.SUCCEEDED: Phase.SUCCEEDED,
    JobPhase.FAILED: Phase.FAILED,
    JobPhase.STOPPED: Phase.STOPPED,
}


class Job:
    """Ranks on several nodes that share fate. Made by `procession.start(..., engine=...)`.

    A context manager: leaving the block stops the job if it still runs, and returns when it has
    ended. `await job` is `wait` for asyncio. Methods may be called from any thread. Ranks are
    numbered throughout the job: node rank times ranks per node, plus local rank.

    unread: after `stop_when_unread`, whether nobody reads our standard output any more.
    stopped_by: 0; for what deals with groups and jobs alike.
    """

    stopped_by = 0

    def __init__(
        self,
        work: Work,
        engine: Engine,
        *,
        lease: float = LEASE,
        on_failure: Callable[[GroupEnd], object] | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        engine.check()
        self.work = work
        self.unread = False
        self.began = time.monotonic()
        world = work.nproc * work.nodes
        node = Node(count=work.nodes, world=world, local_world=work.nproc)
        self.spec: Spec = work.spec.__replace__(nproc=world, node=node)
        self._stops_unread = False
        self._concludes_later = False
        self._thread: threading.Thread | None = None
        self._crash: BaseException | None = None
        self._outcome: Result | GroupFailed | None = None
        self._lock = threading.Lock()
        self._done = Latch()
        self._callbacks: list[Callable[[], None]] = []
        self._owner = os.getpid()
        self._run_dir = RunDir(work.spec.logs, work.nproc, _safe(work.spec.name))
        try:
            self._driver = Driver(
                work,
                engine,
                lease=lease,
                place=self._run_dir.path if self._run_dir.kept else "",
                on_failure=on_failure,
                on_quiet=self._went_quiet,
                say=lambda text: self.say(f"procession: {text}"),
            )
        except BaseException:
            self._run_dir.close()
            raise
        self._driver.subscribe(lambda e: self._run_dir.write_event(e.as_dict()))
        self._run_dir.write_run(
            {
                "name": work.spec.name,
                "engine": engine.name,
                "nodes": work.nodes,
                "nproc": work.nproc,
                "launcher": os.getpid(),
                "restart": repr(work.restart),
                "run": self.run_id,
                "program": type(work.spec.program).__name__.lower(),
                "words": masked_words(words_of(work.spec.program)),
                "programs": [masked_words(words_of(p)) for p in work.spec.programs] or None,
                "cwd": work.spec.cwd,
                "stop": repr(work.spec.stop),
                "hang": repr(work.spec.hang),
                "logs": repr(work.spec.logs),
                "placement": repr(work.spec.placement),
            }
        )
        if on_event is not None:
            self._driver.subscribe(lambda e: (on_event(e), None)[1])

    # -- running it

    def start(self) -> None:
        """Run it in a thread of its own; returns at once."""
        thread = threading.Thread(target=self.drive, name="procession-job", daemon=True)
        thread.start()

    def drive(self) -> None:
        """Run the job in this thread, until it has ended."""
        self._thread = threading.current_thread()
        _jobs.add(self)
        try:
            self._driver.run()
            self._driver.note(self._run_dir.fault)
        except BaseException as e:
            self._crash = e
        finally:
            if not self._concludes_later:
                self.conclude()
            _jobs.discard(self)
            with self._lock:
                self._done.set()
                self._driver.started.set()
                callbacks, self._callbacks = self._callbacks, []
            for call in callbacks:
                call()

    def conclude_later(self) -> None:
        """Leave it to the caller of `drive` to call `conclude`. To be used before it."""
        self._concludes_later = True

    def conclude(self, code: int | None = None) -> None:
        """Write down how it ended, where it has a directory. code: of the command that ran it."""
        end = self.end
        if end is not None and self._run_dir.kept:
            if code is None:
                failed = self.state is Phase.FAILED
                code = GroupFailed(end, "").exit_code if failed else 0
            result = summary(self.spec, self.state, end, code, self.began)
            self._run_dir.write_end(result, report_of(self.state, end))
        self._run_dir.close()

    def stop_when_unread(self) -> None:
        """Have the job stopped when nobody reads our standard output any more; see `unread`."""
        self._stops_unread = True

    def _went_quiet(self) -> None:
        if self._stops_unread:
            self.unread = True
            self.stop(wait=False)

    def drain_patiently(self) -> None:
        """Have all output shown at the end, however slowly it is read."""
        self._driver.drain_patiently()

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Have `call` called, in the driver's thread, when `fd` can be read."""
        self._driver.watch(fd, call)

    def say(self, line: str) -> None:
        """Show a line on stderr, where it stands by itself among the lines of the ranks."""
        self._driver.say(line)

    def on_signal(self, call: Callable[[int, str], None]) -> None:
        """Have `call` called with each signal that an agent got, and the name of its machine."""
        self._driver.on_signal = call

    # -- looking

    @property
    def state(self) -> Phase:
        """Where the job is in its life."""
        return Phase.FAILED if self._crash is not None else PHASES[self._driver.life.phase]

    @property
    def end(self) -> GroupEnd | None:
        """How it ended, None while it has not."""
        return self._driver.end

    @property
    def run_dir(self) -> str:
        """The directory of its files, "" where there is none; each node has a part of it."""
        return self._run_dir.path if self._run_dir.kept else ""

    @property
    def run_id(self) -> str:
        """What it is called."""
        return self._driver.run_id

    @property
    def notes(self) -> list[str]:
        """Nothing: what is said of how ranks are placed, agents say."""
        return []

    @property
    def hosts(self) -> list[str]:
        """The names of the machines of this attempt, by node rank."""
        return [part.host for part in list(self._driver.parts)]

    def subscribe(self, call: Callable[[Event], None]) -> None:
        """Have `call` called with each event of the job, the past ones first."""
        self._driver.subscribe(call)

    def __repr__(self) -> str:
        return (
            f"<procession job {self.spec.name!r}: {self.work.nodes} nodes with {self.work.nproc} "
            f"ranks each, {self.state.name}>"
        )

    # -- waiting

    def wait_started(self) -> None:
        """Wait until every rank has reached its program. Raises StartFailed if one did not."""
        self._wait(self._driver.started, None)
        if self._driver.start_failed:
            self.wait()

    def wait(self, timeout: float | None = None) -> Result:
        """Wait until the job has ended; as `Group.wait`, with values by global rank."""
        if os.getpid() != self._owner:
            raise ProcessionError("this job belongs to the process that started it")
        if not self._wait(self._done, timeout):
            raise TimeoutError(
                f"{self.spec.name} still runs after {timeout:g} s, and goes on: "
                "see stop() and kill()"
            )
        self._join()
        return self.result()

    def _wait(self, latch: Latch, timeout: float | None) -> bool:
        try:
            return latch.wait(timeout)
        except KeyboardInterrupt:
            self.stop(wait=False)
            try:
                self._done.wait(self._longest())
            except KeyboardInterrupt:
                self.kill()
            raise

    def _longest(self) -> float:
        stop = self.work.spec.stop
        return stop.notice + stop.grace + 2 * stop.reap + 4 * MARGIN

    def _join(self) -> None:
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(MARGIN)

    def result(self) -> Result:
        """Give the result of a job that has ended, or raise GroupFailed."""
        with self._lock:
            if self._outcome is None:
                if self._crash is not None:
                    raise ProcessionError(
                        f"the driver of {self.spec.name} failed; its agents end its ranks"
                    ) from self._crash
                end = self.end
                if end is None:
                    raise ProcessionError(f"{self.spec.name} has not ended yet")
                self._outcome = self._result_of(end)
        if isinstance(self._outcome, GroupFailed):
            raise self._outcome.with_traceback(None)
        return self._outcome

    def _result_of(self, end: GroupEnd) -> Result | GroupFailed:
        if end.failures:
            first = end.failures[0]
            kind = StartFailed if first.outcome is Outcome.NOT_STARTED else GroupFailed
            failed = kind(end, harmless_report(end))
            told = self._told(first.rank)
            if told and isinstance(self.spec.program, Function):
                failed.__cause__ = exception_of(dict(told))
            return failed
        values: list[Any] = [None] * end.nproc
        for part in self._driver.parts:
            for rank, body in part.values.items():
                values[part.node * self.work.nproc + rank] = _value(body, rank)
        ranks = tuple(sorted((*end.finished, *end.ended), key=_by_rank))
        return Result(values, self.state, ranks, end.run_dir)

    def _told(self, rank: int) -> Mapping[str, Any]:
        node, local = divmod(rank, self.work.nproc)
        parts = self._driver.parts
        return parts[node].told.get(str(local), {}) if node < len(parts) else {}

    def __await__(self) -> Generator[Any, None, Result]:
        """Wait in asyncio. When the waiting task is cancelled, the job goes on."""
        import asyncio

        return asyncio.to_thread(self.wait).__await__()

    # -- ending

    def stop(
        self,
        signal: int | None = None,
        grace: float | None = None,
        wait: bool = True,
        notice: float | None = None,
    ) -> None:
        """End the job on all nodes; as `Group.stop`."""
        check_stop(signal, grace, notice)
        if os.getpid() != self._owner:
            return
        self._driver.request_stop(number=signal, grace=grace, notice=notice)
        if wait and threading.current_thread() is not self._thread:
            self._done.wait(self._longest() + (grace or 0.0) + (notice or 0.0))
            self._join()

    def kill(self, wait: bool = True) -> None:
        """End the job by SIGKILL on all nodes, at once. wait: return when it has ended."""
        if os.getpid() != self._owner:
            return
        self._driver.request_stop(kill=True, cut=True)
        if wait and threading.current_thread() is not self._thread:
            self._done.wait(self._longest())
            self._join()

    def signal_all(self, signal: int, *, only_caught: bool = False) -> None:
        """Send every rank a signal. only_caught: only those that have a handler for it."""
        self._driver.request_signal(signal, only_caught=only_caught)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        except KeyboardInterrupt:
            self.kill()
            raise


def _value(body: bytes, rank: int) -> Any:
    import pickle

    try:
        return pickle.loads(body)
    except Exception as e:
        raise ProcessionError(
            f"the value of rank {rank} cannot be unpickled here: {type(e).__name__}: {e}"
        ) from e


def _by_rank(end: RankEnd) -> int:
    return end.rank


def _safe(name: str) -> str:
    kept = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
    return kept.strip("._")[:40] or "job"


_jobs: set[Job] = set()  # that run


def _stop_all() -> None:
    """Stop what still runs when the interpreter exits, all at the same time."""
    running = list(_jobs)
    for job in running:
        job.stop(wait=False)
    for job in running:
        job.stop()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_jobs.clear)

__all__ = ["Job"]
