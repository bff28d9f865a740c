"""`Group`: a running group as its user holds it.

Theory of operation. A run is owned by one loop, its driver, which runs in one thread and ends with
the run. Everybody else has a `Group`, and asks the loop. Its base in `result` has waiting,
interrupts, stopping, signals and the result; here are being seen from other terminals, and writing
down the end.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from procession.driver.driver import UNREACHABLE
from procession.driver.plugins import Environment, harmless_environment
from procession.explain.ends import failed_by
from procession.group.result import GroupBase
from procession.rules.tables import Phase
from procession.values.errors import Exit, GroupEnd, GroupFailed, GroupStopped, exit_code_after
from procession.values.events import Event
from procession.values.program import words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.control.reach import Reach
    from procession.group.result import AnyDriver
    from procession.preload.plan import Plan
    from procession.prepare.placing import Placed
    from procession.prepare.resources import Resources

CONTROL = "PROCESSION_CONTROL"


class Group(GroupBase):
    """Ranks that share fate. Created by `start`.

    A context manager: leaving the block stops the group if it is active, and returns when it has
    ended. `await group` is `wait` for asyncio. Iteration gives all lifecycle events, and ends with
    the group. Call methods from any thread.

    Ranks are numbered in the whole group, also on several nodes. There, while the main thread waits
    for the group in a program without a handler for SIGTERM, that signal stops the group with its
    grace period, and then ends the program.

    driver: the loop that owns it, for procession itself. environments: to be filled with what gives
    more variables for ranks. For groups of this machine: resources: what it needs besides
    processes; plan: of what is imported before the ranks are forked; placed: the CPUs of the ranks,
    and how many threads they can use.
    unread: after `stop_when_unread`, whether the reader of stdout has exited.
    stopper: what stopped it, in words, for its report; to be set by who drives it.
    notes: remarks about how ranks are started here, one line each.
    """

    resources: Resources
    plan: Plan | None = None
    placed: Placed
    environments: list[Callable[[int, int], Mapping[str, str]]]

    def __init__(self, driver: AnyDriver, control: bool | None) -> None:
        super().__init__(driver)
        self.unread = False
        self.stopper = ""
        self.notes: list[str] = []
        self._controlled = os.environ.get(CONTROL) == "1" if control is None else control
        self._reach: Reach | None = None

    # -- running it

    def drive(self, taken: Callable[[], object] | None = None, *, concludes: bool = True) -> None:
        """Start it and supervise it in this thread, until it has ended.

        taken: called when the end of the interpreter would wait for this run. concludes: False
        leaves it to the caller to call `conclude`, unless the driver has failed.
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
            if concludes or self._crash is not None:
                self._conclude_now()
            _running.discard(self)
            self._over()

    def _become_reachable(self) -> None:
        try:
            from procession.control.reach import Reach

            self._reach = Reach(self)
            if self._reach.name and self.driver.undebugged == UNREACHABLE:
                self.driver.undebugged = ""
            if self.run_dir:
                from procession.control.index import note_run

                note_run(self.driver.run_id, self.run_dir)
        except (OSError, ImportError):
            pass  # no descriptor is left: the start will fail, and say so

    def _conclude_now(self) -> None:
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
                code = 128 + (self.stopped_by or self.driver.stop_signal) if stopped else 0
        if end is not None:
            report = report_of(self.state, end, self.who_stopped)
            if self.run_dir:
                result = summary(self.spec, self.state, end, code, self.began)
                self._write_end(result, report)
        if reach is not None:
            stacks = [*end.stacks] if end is not None else []
            said = {"state": self.state.name, "code": code, "report": report}
            reach.close({**said, "stacks": stacks})

    def _write_end(self, result: dict[str, Any], report: str) -> None:
        """Write into the run's directory how it ended.

        A directory that does not answer is not waited for; the files are written later, if ever.
        """
        directory = self.driver.files

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

        self.driver.display.on_quiet = stop

    def say(self, line: str) -> None:
        """Show a line on stderr, where it stands by itself among the lines of the ranks.

        For a run whose output is led through the launcher, as that of jobs always is.
        """
        self.driver.say(line)

    def hear(self, call: Callable[[Event], None]) -> None:
        """Have `call` called with each event, as `subscribe`, but in the driver's thread.

        For handlers that must know at once. Nothing is supervised while it works, so it must never
        wait: for no file, no lock, no other process.
        """
        self.driver.subscribe(call, inside=True)

    def tell(self, handler: Callable[[Event], object]) -> None:
        """Have a handler called with each event; it may also have variables for the ranks."""
        self.driver.journal.subscribe(handler)
        give: Environment | None = getattr(handler, "environment", None)
        if callable(give):
            self.environments.append(harmless_environment(handler, give))

    def start(self) -> None:
        """Run it in a thread of its own; returns at once."""
        thread = threading.Thread(target=self.drive, name="procession", daemon=True)
        thread.start()

    # -- looking

    @property
    def hosts(self) -> list[str]:
        """The names of the machines of this attempt, by node rank; [] where there is only this."""
        return self.driver.hosts

    def pids(self) -> dict[int, int]:
        """Give the process of each rank of the current attempt that has or had one.

        On other machines these are numbers there.
        """
        return self.driver.pids()

    def exit_of(self, rank: int) -> Exit | None:
        """Give the exit status of a rank of the current attempt, None while it has not exited.

        For a rank of this machine that announced its exit code, and was ended by our own signal
        before it exited: the code that it announced.
        """
        return self.driver.exit_of(rank)

    def failure_of(self, end: GroupEnd) -> GroupFailed | None:
        """Give what is raised for an end, None for a good one; also before the group has ended."""
        if not end.failures:
            return None
        return failed_by(end, self.spec.program, self.driver.error_of)

    def __repr__(self) -> str:
        where = f" on {len(self.hosts)} machines" if self.hosts else ""
        return (
            f"<procession group {self.spec.name!r}: {self.spec.nproc} ranks{where}, "
            f"{self.state.name}>"
        )

    @property
    def began(self) -> float:
        """When it began, in seconds of the monotonic clock."""
        began = self.driver.journal.began
        return began[0] / 1e9 if began else time.monotonic()

    @property
    def stopped_by(self) -> int:
        """The signal by which somebody in another terminal had it stopped, 0 if nobody did."""
        return self._reach.stopped_by if self._reach is not None else 0

    @property
    def run_id(self) -> str:
        """What it is found by from other terminals: the id of its run."""
        return (self._reach.name if self._reach is not None else "") or self.driver.run_id

    @property
    def run_dir(self) -> str:
        """The run's directory, "" where there is none; each node of a job has a part of it."""
        return self.driver.files.path if self.driver.files.kept else ""

    @property
    def losses(self) -> list[str]:
        """What of its output, and of what is written down about it, is lost, one line each."""
        return self.driver.losses

    def look(self) -> dict[str, Any]:
        """Describe the group as it is now, as plain data that can be sent over a socket.

        Not to be called by handlers of events where ranks are on other machines: those are asked,
        and one that does not answer at once is shown as it was last seen.

        Keys: name, run (its id), run_dir ("" for none), words (its command line, or its function),
        launcher (pid), cwd, host and slurm_job (see `system.origin`), nproc, node, nodes,
        first (the number that rank 0 has in the whole job), state (of `Phase`), attempt, restarts
        (the most), began (seconds since 1970), cause (what failed first, in words, or None),
        kill_at (seconds since 1970, by when ranks that are being ended get SIGKILL, or None), and
        ranks: a list of rank, pid (None), state (of `Worker`), started_at (seconds since 1970, or
        None), exit (in words, or None), ended (of `Ended`, or None), failed (whether by
        itself), last_line (that it wrote, if the launcher has it; escaped, and without colours),
        and of its last beat: beats, beat_at (seconds since 1970, or None), step, total, fields.
        """
        from procession.system.origin import origin
        from procession.values.masking import masked_words

        driver, spec, began = self.driver, self.spec, self.driver.journal.began
        if driver.distant:
            self._check_thread("its node processes")
        return {
            "name": spec.name,
            "run": self.run_id,
            "run_dir": self.run_dir,
            "words": masked_words(words_of(spec.program)),
            "launcher": os.getpid(),
            **origin(),
            "nproc": spec.nproc,
            "node": spec.node.rank,
            "nodes": spec.node.count,
            "first": spec.node.first(spec.nproc),
            "restarts": spec.restart.max,
            "state": self.state.name,
            "attempt": driver.attempt,
            "began": began[1] if began else time.time(),
            **driver.look(),
        }

    def stacks(self, timeout: float = 1.0, *, native: bool = False) -> list[dict[str, Any]]:
        """Return the stack of each rank that has a process, as plain data; ranks keep running.

        `print(group.stacks())` prints the stacks merged.

        timeout: seconds that ranks have to answer. py-spy, if installed, has the same time again
            for programs that cannot answer.
        native: also return frames of native code, by py-spy, which stops each rank for a moment.

        One dict per rank: rank (its local number), pid, frames (of the main thread: lists of file,
        line and function, innermost first), threads (`thread` and `frames` of each known thread),
        state (what the process does, in words, if no frame is known, else ""), letter (of the
        process state, as `ps` shows it), kernel (the stack in the kernel, if it can be read and no
        other is known), native (frames in words).

        Raises ProcessionError in handlers of events, and in a fork.
        """
        from procession.explain.stacks.merge import Stacks

        self._check_thread("its stacks")
        return Stacks(self.driver.stacks(timeout, native=native))

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

    def forget(self) -> None:
        """Let go of its socket, in a fork of this process."""
        if self._reach is not None:
            self._reach.forget()


_running: set[Group] = set()  # not weak references: those would now and then swallow an interrupt


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


Job = Group  # what `start_on` gives
