"""Waiting for the end of a run, in threads and in asyncio, or ending it; its `Result`.

A run gives its caller that when it has ended, or the exception if it failed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator

from procession.driver.driver import MARGIN
from procession.explain.ends import failed_by
from procession.rules.tables import Phase
from procession.system.threads import Latch
from procession.values.base import Value
from procession.values.errors import (
    GroupEnd,
    GroupFailed,
    ProcessionError,
    RankEnd,
    SpecError,
    is_signal,
)
from procession.values.policy import Stop, StopRequest
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from procession.driver.job import JobDriver
    from procession.driver.local import LocalDriver

    AnyDriver = LocalDriver | JobDriver


class StillRuns(TimeoutError):
    """A run has not ended in the time that its caller waits for; no other TimeoutError is this."""


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


MOST_INTERRUPTS = 100  # by Ctrl-C, while a group is being killed


class GroupBase:
    """A run that ends at some time, or is ended, and its result. The base of `Group`."""

    def __init__(self, driver: AnyDriver) -> None:
        self.driver = driver
        self._thread: threading.Thread | None = None  # that drives the run
        self._owner = os.getpid()
        self._lock = threading.Lock()  # of what follows
        self._done = Latch()
        self._callbacks: list[Callable[[], None]] = []
        self._crash: BaseException | None = None
        self._outcome: Result | GroupFailed | None = None

    @property
    def spec(self) -> Spec:
        """What it runs: all of its ranks."""
        return self.driver.spec

    @property
    def state(self) -> Phase:
        """Where the run is in its life."""
        return Phase.FAILED if self._crash is not None else self.driver.phase

    @property
    def end(self) -> GroupEnd | None:
        """How it ended, None while it has not."""
        return self.driver.end

    def _over(self) -> None:
        """Wake everybody who waits for the end."""
        with self._lock:
            self._done.set()
            self.driver.started.set()
            callbacks, self._callbacks = self._callbacks, []
        self.driver.journal.wake()
        for call in callbacks:
            call()

    def when_over(self, call: Callable[[], None]) -> None:
        """Have `call` called once when the run is over, or now if it is, however it ended.

        It is called in the thread that drives the run, or in this one, and must not wait.
        """
        with self._lock:
            over = self._done.is_set()
            if not over:
                self._callbacks.append(call)
        if over:
            call()

    def wait(self, timeout: float | None = None) -> Result:
        """Wait until the run has ended.

        timeout: seconds; None waits for ever. Raises GroupFailed if a rank failed, TimeoutError if
        it still runs after `timeout`, which does not stop it. On KeyboardInterrupt the run is
        stopped, and a second one kills it; when it has ended, KeyboardInterrupt is raised.
        """
        try:  # first of all: wherever an interrupt hits, the run is stopped
            self._check_thread("the group")
            ended = self._wait_for(self._done, timeout)
        except KeyboardInterrupt:
            self._stop_on_interrupt()
            raise
        if not ended:
            raise StillRuns(
                f"{self.spec.name} still runs after {timeout:g} s, and goes on: "
                "see stop() and kill()"
            )
        self._join()
        return self.result()

    def wait_started(self) -> None:
        """Wait until every rank has reached its program. Raises StartFailed if one did not."""
        try:
            self._wait_for(self.driver.started, None)
        except KeyboardInterrupt:
            self._stop_on_interrupt()
            raise
        if self.driver.start_failed:
            self.wait()

    def __await__(self) -> Generator[Any, None, Result]:
        """Wait in asyncio. When the waiting task is cancelled, the run goes on."""
        import asyncio
        from concurrent.futures import Future

        over = Future[None]()
        over.set_running_or_notify_cancel()  # it cannot be cancelled
        self.when_over(lambda: over.set_result(None))
        yield from asyncio.wrap_future(over)
        self._join()
        return self.result()

    def _wait_for(self, latch: Latch, seconds: float | None) -> bool:
        with self.driver.waited_for(self._done):
            return latch.wait(seconds)

    def _check_thread(self, awaited: str) -> None:
        """Refuse to wait in a fork, and where the wait would never end. Raises ProcessionError.

        awaited: what for, in words.
        """
        if os.getpid() != self._owner:
            raise ProcessionError("this group belongs to the process that started it")
        if self._is_in_driver and not self._done.is_set():
            raise ProcessionError(f"a handler of a group's events cannot wait for {awaited}")

    @property
    def _is_in_driver(self) -> bool:
        """Whether the run is driven, or handlers are called, in this thread."""
        return threading.current_thread() in (self._thread, self.driver.journal.handlers.thread)

    def _stop_on_interrupt(self, *, kill: bool = False) -> None:
        """Stop the run and wait for its end; a further interrupt kills it.

        Later ones are ignored: even after three, users see one traceback, that of the first.
        """
        for _ in range(MOST_INTERRUPTS):
            try:
                self.driver.request_stop(StopRequest(kill=kill, stacks=not kill))
                self._wait_for(self._done, self.driver.longest())
                self._join()
                return
            except KeyboardInterrupt:
                kill = True

    def _join(self) -> None:
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(MARGIN)

    # -- ending it

    def stop(
        self,
        signal: int | None = None,
        grace: float | None = None,
        wait: bool = True,
        notice: float | None = None,
        *,
        stacks: bool = False,
    ) -> None:
        """End the run: stop signal, grace, SIGKILL. A run that has ended stays as it is.

        signal, grace: instead of those of its `Stop`; grace in seconds. For a run that is being
        ended already, another signal is sent besides, and a time can only become shorter. wait:
        return when the run has ended; otherwise at once. notice: seconds before the stop signal
        in which ranks may end by themselves; see `Stop`. stacks: have its end say where ranks were,
        which may delay the signal by 0.15 s. `wait` gives the result.
        Raises SpecError for a signal that does not exist or a time that is not one.
        """
        request = StopRequest(signal=signal, grace=grace, notice=notice, stacks=stacks)
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

    # -- the result

    def result(self) -> Result:
        """Give the result of a run that has ended, or raise GroupFailed."""
        with self._lock:
            if self._outcome is None:
                if self._crash is not None:
                    why = str(self._crash).partition("\n")[0]
                    why = f"{type(self._crash).__name__}: {why}".removesuffix(": ")
                    raise ProcessionError(
                        f"the driver of {self.spec.name} failed ({why}); its ranks were ended"
                    ) from self._crash
                end = self.end
                if end is None:
                    raise ProcessionError(f"{self.spec.name} has not ended yet")
                self._outcome = self._result_of(end)
        if isinstance(self._outcome, GroupFailed):
            raise self._outcome.with_traceback(None)  # or it would grow each time
        return self._outcome

    def _result_of(self, end: GroupEnd) -> Result | GroupFailed:
        if end.failures:
            return failed_by(end, self.spec.program, self.driver.error_of)
        values: list[Any] = [None] * end.nproc
        for rank, program, body in self.driver.returned():
            from procession.prepare.results import value_of

            try:
                values[rank] = value_of(program, body)
            except (Exception, SystemExit) as e:  # of a module that exits
                raise ProcessionError(
                    f"the value of rank {rank} cannot be unpickled here: {type(e).__name__}: {e}"
                ) from e
        ranks = tuple(sorted((*end.finished, *end.ended), key=lambda each: each.rank))
        return Result(values, self.state, ranks, end.run_dir)


def _check_signal(signal: int) -> None:
    if not is_signal(signal):
        raise SpecError(f"there is no signal {signal!r}")
