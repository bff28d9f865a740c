"""`Job`: a group over several nodes as its user holds it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from procession.agent.boot import check_python
from procession.engines.contract import Engine, EngineError
from procession.engines.driver import LEASE, Driver
from procession.engines.jobwords import JobPhase
from procession.engines.look import Seen, look_at, stacks_of
from procession.engines.reception import Reception
from procession.engines.sigterm import orderly_sigterm
from procession.engines.tunnel import check
from procession.engines.work import Work
from procession.group.handle import Handle
from procession.group.result import MARGIN, failed_by
from procession.output.rundir import RunDir, directory_name, run_of
from procession.prepare.asked import asked_of
from procession.rules.tables import Phase
from procession.system.threads import Latch
from procession.values.errors import GroupEnd, GroupFailed, SpecError
from procession.values.events import Event
from procession.values.program import Program

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


class Job(Handle):
    """Ranks on several nodes that share fate. Made by `procession.start_on`.

    A context manager: leaving the block stops the job if it still runs, and returns when it has
    ended. `await job` is `wait` for asyncio. Iteration gives the job's events from the first on,
    and ends with it. Methods may be called from any thread. Ranks are numbered throughout the job:
    node rank times ranks per node, plus local rank.

    While the main thread waits for the job, in a program that does not take SIGTERM itself, that
    signal stops the job first, with its whole grace period, and then ends the program, as it would
    have at once.

    unread: after `stop_when_unread`, whether nobody reads our standard output any more.
    stopper: who had it stopped, in words, for its report; to be set by who drives it.
    distant: True; for what deals with groups and jobs alike.
    """

    distant = True
    _kind = "job"
    _crash_text = "the driver of {name} failed ({why}); its node processes end its ranks"

    def __init__(
        self,
        work: Work,
        engine: Engine,
        *,
        lease: float = LEASE,
        on_failure: Callable[[GroupEnd], object] | None = None,
        on_event: Callable[[Event], object] | None = None,
        control: bool | None = None,
        link_encryption: str = "auto",
        reception: Reception | None = None,
    ) -> None:
        try:
            check(link_encryption)
        except ValueError as e:
            raise SpecError(f"link encryption {e} [P215]") from None
        try:
            check_python()  # of which node processes are started
        except OSError as e:
            raise EngineError(e.strerror or str(e)) from None
        engine.check()
        super().__init__(work.whole, control)
        self.work = work
        self._seen = Seen(-1, {})
        called = directory_name(work.spec.name, os.environ)
        directory = RunDir(work.spec.logs, work.nproc, called)
        try:
            self._driver = Driver(
                work,
                engine,
                lease=lease,
                encrypted=link_encryption == "required",
                run_id=run_of(directory.path),
                on_failure=on_failure,
                directory=directory if directory.kept else None,
                reception=reception,
                say=lambda text: self.say(f"procession: {text}"),
            )
        except BaseException:
            directory.close()
            raise
        run_id = self._driver.state.run_id
        self._take(self._driver, self._driver.printer, directory, run_id)
        of_job = {"engine": engine.name, "nodes": work.nodes, "restart": repr(work.restart)}
        asked = asked_of(work.spec, run_id)
        directory.write_run({**asked, **of_job})
        if on_event is not None:
            self._driver.subscribe(on_event)

    # -- running it

    def start(self) -> None:
        """Run it in a thread of its own; returns at once."""
        thread = threading.Thread(target=self.drive, name="procession-job", daemon=True)
        thread.start()

    def on_signal(self, call: Callable[[int, str, bool], None]) -> None:
        """Call `call` with each signal that a node process got, which one, and whether again."""
        self._driver.node_events.on_signal = call

    @property
    def who_stopped(self) -> str:
        """Who had it stopped, in words, "" if that is not known."""
        return super().who_stopped or self._driver.state.stopper

    # -- looking

    @property
    def state(self) -> Phase:
        """Where the job is in its life."""
        return Phase.FAILED if self._crash is not None else PHASES[self._driver.life.phase]

    @property
    def hosts(self) -> list[str]:
        """The names of the machines of this attempt, by node rank."""
        return [part.host for part in list(self._driver.state.parts)]

    def look(self) -> dict[str, Any]:
        """Describe the job as it is now, as plain data. Not to be called by handlers of events.

        As `Group.look`, with the ranks of all nodes by their numbers in the job. A node that does
        not answer at once is shown as it was last seen.
        """
        self._check_thread("its node processes")
        return look_at(self, self._driver, self._seen)

    def stacks(self, timeout: float = 1.0, *, native: bool = False) -> list[dict[str, Any]]:
        """Say where each rank is now, as `Group.stacks` does, by its number in the job."""
        self._check_thread("its node processes")
        return stacks_of(self._driver, timeout, native=native)

    def __repr__(self) -> str:
        return (
            f"<procession job {self.spec.name!r}: {self.work.nodes} nodes with {self.work.nproc} "
            f"ranks each, {self.state.name}>"
        )

    def failure_of(self, end: GroupEnd) -> GroupFailed | None:
        """Give what is raised for an end, None for a good one; also before the job has ended."""
        return failed_by(end, self.spec.program, self._error_of) if end.failures else None

    # -- waiting

    def _wait_for(self, latch: Latch, seconds: float | None) -> bool:
        with orderly_sigterm(
            lambda: self.stop(wait=False), lambda: self._done.wait(self._longest())
        ):
            return latch.wait(seconds)

    def _longest(self) -> float:
        stop = self.spec.stop
        return stop.notice + stop.grace + 2 * stop.reap + 4 * MARGIN

    # -- the result

    def _error_of(self, rank: int) -> dict[str, Any] | None:
        node, local = self._driver.work.locate(rank)
        parts = self._driver.state.parts
        sent = parts[node].errors.get(str(local)) if node < len(parts) else None
        return dict(sent) if sent else None

    def _returned(self) -> Iterator[tuple[int, Program, bytes | bytearray]]:
        for part in self._driver.state.parts:
            for rank, body in part.values.items():
                yield part.first + rank, self.spec.program, body
