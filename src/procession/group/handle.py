"""`Handle`: what the user holds of a run.

Theory of operation. A run is owned by one loop, its driver, which runs in one thread and ends with
the run. Everybody else has a handle, and asks the loop. This module and `result` have what is
behind `Group`: waiting, interrupts, stopping, signals, the result, being seen from other terminals,
and writing down the end.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator

from procession.group.result import Waiting
from procession.rules.tables import Phase
from procession.values.errors import GroupStopped, SpecError, exit_code_after
from procession.values.events import Event
from procession.values.exit import is_signal
from procession.values.policy import Stop, StopRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from procession.control.reach import Reach
    from procession.driver.driver import Driver
    from procession.group.screen import Screen
    from procession.output.wiring import Files
    from procession.values.errors import GroupEnd

CONTROL = "PROCESSION_CONTROL"


class Handle(Waiting):
    """The base of `Group`.

    unread: after `stop_when_unread`, whether nobody reads our standard output any more.
    stopper: who had it stopped, in words, for its report; to be set by who drives it.
    notes: what people should know of how ranks are started here, one line each.
    """

    def __init__(
        self, driver: Driver, screen: Screen, run_dir: Files, run_id: str, control: bool | None
    ) -> None:
        super().__init__(driver)
        self.distant = driver.distant
        self._screen = screen
        self._run_dir = run_dir
        self._own_id = run_id
        self.unread = False
        self.stopper = ""
        self.notes: list[str] = []
        self._controlled = os.environ.get(CONTROL) == "1" if control is None else control
        self._reach: Reach | None = None
        self._concludes_later = False

    # -- running it

    def drive(self, taken: Callable[[], object] | None = None) -> None:
        """Start it and supervise it in this thread, until it has ended.

        taken: called when the end of the interpreter would wait for this run.
        """
        self._thread = threading.current_thread()
        _running.add(self)
        try:
            if taken is not None:
                taken()
            if self._controlled:
                self._become_reachable()
            self.driver.run()
        except BaseException as e:
            self._crash = e
        finally:
            self._conclude_now()
            _running.discard(self)
            self._over()

    def _become_reachable(self) -> None:
        try:
            from procession.control.reach import Reach

            self._reach = Reach(self, self.driver, self._screen, self._own_id)
            if self.run_dir:
                from procession.control.index import note_run

                note_run(self._own_id, self.run_dir)
        except (OSError, ImportError):
            pass  # no descriptor is left: the start will fail, and say so

    def _conclude_now(self) -> None:
        if self._concludes_later and self._crash is None:
            return
        try:
            self.conclude()
            for each in self.losses:
                import logging

                logging.getLogger("procession").warning("procession: %s", each)
        except Exception as e:
            self._crash = self._crash or e

    def wait_for_values(self, timeout: float | None) -> list[Any]:
        """Wait as `wait` does; gives what the ranks returned.

        Raises GroupStopped, too: for who waits so has not stopped it.
        """
        result = self.wait(timeout)
        end = self.end
        if result.state is not Phase.STOPPED or end is None:
            return result.values
        from procession.explain.summary import report_of

        report = report_of(result.state, end, self.who_stopped)
        raise GroupStopped(end, report, result.values)

    @property
    def who_stopped(self) -> str:
        """Who had it stopped, in words, "" if that is not known."""
        from_elsewhere = self._reach.stopper if self._reach is not None else ""
        return self.stopper or from_elsewhere or self.driver.stopper

    def conclude_later(self) -> None:
        """Leave it to the caller of `drive` to call `conclude`. To be used before it."""
        self._concludes_later = True

    def conclude(self, code: int | None = None) -> None:
        """Write down how it ended, where it has a directory, and tell clients in other terminals.

        code: the exit code of the command that ran it; None: computed from the end.
        """
        reach = self._reach
        if reach is None and not self.run_dir:
            return
        try:
            if (reach is not None and reach.visited) or (self.end and self.run_dir):
                self._write_down(reach, self.end, code)
        except (OSError, ImportError):
            pass  # no descriptor is left
        finally:
            if reach is not None:
                reach.close()
            self.driver.journal.let_threads_go()

    def _write_down(self, reach: Reach | None, end: GroupEnd | None, code: int | None) -> None:
        from procession.explain.summary import report_of, summary

        report = f"the driver of {self.spec.name} failed; its ranks were ended"
        if code is None:  # what a command should exit with that did nothing but run it
            if end is None:
                code = 1
            elif end.failures:
                code = exit_code_after(end.failures[0])
            else:
                stopped = self.state is Phase.STOPPED
                code = 128 + (self.stopped_by or self.stop_signal) if stopped else 0
        if end is not None:
            report = report_of(self.state, end, self.who_stopped)
            if self.run_dir:
                result = summary(self.spec, self.state, end, code, self.began)
                self._write_end(result, report)
        if reach is not None:
            reach.close({"state": self.state.name, "code": code, "report": report})

    def _write_end(self, result: dict[str, Any], report: str) -> None:
        """Write into the run's directory how it ended.

        A directory that does not answer is not waited for; the files are written later, if ever.
        """
        directory = self._run_dir

        def write() -> None:
            if os.path.isdir(directory.path):
                from procession.system.origin import slurm_ids

                directory.write_end({**result, **slurm_ids(os.environ)}, report)

        self.driver.journal.on_disk("writing the report to", write)

    def stop_when_unread(self) -> None:
        """Have it stopped when nobody reads our standard output any more; see `unread`.

        To be used before it is started. Without this, it goes on.
        """

        def stop() -> None:
            self.unread = True
            if not self.state.final:
                self.stop(wait=False)

        self._screen.on_quiet = stop

    def say(self, line: str) -> None:
        """Show a line on stderr, where it stands by itself among the lines of the ranks.

        For a run whose output is led through the launcher, as that of jobs always is.
        """
        from procession.output.escape import shown

        self._screen.say(shown(line).encode(errors="backslashreplace") + b"\n")

    # -- looking

    @property
    def began(self) -> float:
        """When it began, in seconds of the monotonic clock."""
        began = self.driver.journal.began
        return began[0] / 1e9 if began else time.monotonic()

    @property
    def stop_signal(self) -> int:
        """The signal by which its ranks are, or were, asked to end."""
        return self.driver.stop_signal

    @property
    def stopped_by(self) -> int:
        """The signal by which somebody in another terminal had it stopped, 0 if nobody did."""
        return self._reach.stopped_by if self._reach is not None else 0

    @property
    def run_id(self) -> str:
        """What it is found by from other terminals: the id of its run."""
        return (self._reach.name if self._reach is not None else "") or self._own_id

    @property
    def run_dir(self) -> str:
        """The run's directory, "" where there is none; each node of a job has a part of it."""
        return self._run_dir.path if self._run_dir.kept else ""

    @property
    def losses(self) -> list[str]:
        """What of its output, and of what is written down about it, is lost, one line each."""
        return self.driver.losses

    def look(self) -> dict[str, Any]:
        """Describe the group as it is now, as plain data; see `looking.look_at` for the keys.

        Not to be called by handlers of events where ranks are on other machines: those are asked,
        and one that does not answer at once is shown as it was last seen.
        """
        from procession.group.looking import look_at

        if self.distant:
            self._check_thread("its node processes")
        return look_at(self.driver, self.state.name, self.run_id, self.run_dir)

    def stacks(self, timeout: float = 1.0, *, native: bool = False) -> list[dict[str, Any]]:
        """Say where each rank that has a process is now, as plain data; it goes on meanwhile.

        timeout: seconds that ranks have to answer; to look at programs that cannot answer, py-spy,
        where it is installed, has as long again. native: with the frames of native code, by py-spy,
        which stops each rank for a moment. Keys: rank (its local number), pid, frames (of its
        main thread: lists of file, line and function, the innermost first), threads (`thread` and
        `frames` of each that is known: of the main one, with `native` of all), state (what its
        process does, in words, where no frame is known, else ""), kernel (its stack in the kernel,
        where it may be read and no other is known), letter (of its process's state, as `ps` shows
        it), native (frames in words).
        `explain.stacks.merge.format` writes it for people. Raises ProcessionError in handlers of
        events, and in a fork.
        """
        self._check_thread("its stacks")
        return self.driver.stacks(timeout, native=native)

    def subscribe(self, call: Callable[[Event], object]) -> None:
        """Have `call` called with each event, the past ones first.

        In a thread of its own for all handlers of the run, in order, or in this one if the run
        is over. At its end the run waits five seconds for handlers, not longer. What one raises
        is logged, the first time.
        """
        self.driver.subscribe(call)

    def __iter__(self) -> Iterator[Event]:
        """Give every lifecycle event, from the first on; ends when the run has ended."""
        return self.driver.journal.follow(self._done.is_set)

    # -- ending

    def stop(
        self,
        signal: int | None = None,
        grace: float | None = None,
        wait: bool = True,
        notice: float | None = None,
    ) -> None:
        """End the run: stop signal, grace, SIGKILL. A run that has ended stays as it is.

        signal, grace: instead of those of its `Stop`; grace in seconds. For a run that is being
        ended already, another signal is sent besides, and a time can only become shorter. wait:
        return when the run has ended; otherwise at once. notice: seconds before the stop signal
        in which ranks may end by themselves; see `Stop`. `wait` gives the result.
        Raises SpecError for a signal that does not exist or a time that is not one.
        """
        request = StopRequest(signal=signal, grace=grace, notice=notice)
        try:
            Stop(**request.changes).check()
        except ValueError as e:
            raise SpecError(str(e)) from None
        if os.getpid() != self._owner:
            return  # a fork of the launcher: the run is not its own to end
        self.driver.request_stop(request)
        if wait:
            self.wait_for_end((grace or 0.0) + (notice or 0.0))

    def kill(self, wait: bool = True) -> None:
        """End the run by SIGKILL, at once. wait: return when it has ended."""
        if os.getpid() != self._owner:
            return
        self.driver.request_stop(StopRequest(kill=True))
        if wait:
            self.wait_for_end()

    def wait_for_end(self, more: float = 0.0) -> None:
        """Wait until a run that is being ended has given back all that it held; raises nothing.

        Its `state` is final before that: its last output may still be on the way. more: seconds
        beyond the longest that its own limits allow. Returns at once in a thread of the run itself,
        and in a fork of the launcher.
        """
        if os.getpid() == self._owner and not self._is_in_driver:
            self._wait_for(self._done, self.driver.longest() + more)
            self._join()

    def send_signal(self, rank: int, signal: int, *, only_caught: bool = False) -> None:
        """Send a signal to a rank's process. If the rank ends by it, that is a failure of the rank.

        only_caught: only if the process has a handler for it, so that it does not die of it.

        Without effect for a rank that has no process (any more). Raises SpecError for a rank or a
        signal that does not exist.
        """
        if type(rank) is not int or rank not in range(self.spec.nproc):
            raise SpecError(f"there is no rank {rank!r}")
        _check_signal(signal)
        self.driver.request_signal(rank, signal, only_caught)

    def signal_all(self, signal: int, *, only_caught: bool = False) -> None:
        """Send every rank a signal; see `send_signal`."""
        _check_signal(signal)
        self.driver.request_signal(None, signal, only_caught)

    def forget(self) -> None:
        """Let go of its socket, in a fork of this process."""
        if self._reach is not None:
            self._reach.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        try:
            self.stop()
        except KeyboardInterrupt:
            if os.getpid() == self._owner:
                self._stop_on_interrupt(kill=True)
            if kind is not KeyboardInterrupt:
                raise  # else the first interrupt is raised, and shows one traceback

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await asyncio.to_thread(self.stop)


def _check_signal(signal: int) -> None:
    if not is_signal(signal):
        raise SpecError(f"there is no signal {signal!r}")


_running: set[Handle] = set()  # not weak references: those would now and then swallow an interrupt


def _stop_all() -> None:
    """Stop what still runs when the interpreter exits, all at the same time.

    Runs that have ended, but are not concluded, are waited for, too: their threads are daemons, and
    what they have not yet shown or written would be lost.
    """
    running = list(_running)
    for each in running:
        if not each.state.final:
            each.stop(wait=False)
    for each in running:
        each.wait_for_end()


def _forget_all() -> None:
    for each in _running:
        each.forget()
    _running.clear()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_forget_all)
