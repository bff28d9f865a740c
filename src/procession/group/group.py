"""`Group`: a running group on this machine as its user holds it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

from procession.agent.client import Agent
from procession.driver.plugins import Environment, chosen, handlers_of, harmless_environment
from procession.driver.supervisor import Supervisor
from procession.explain.ends import announced_by, start_failed
from procession.group.handle import Handle
from procession.output.wiring import Output
from procession.prepare.jobs import RankJobs
from procession.prepare.payload import Payload
from procession.rules.tables import Phase, Worker
from procession.values.errors import ProcessionError, RankEnd
from procession.values.events import Event
from procession.values.exit import Exit
from procession.values.program import Function, Program
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.prepare.results import Body

SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Group(Handle):
    """Ranks that share fate. Made by `start`.

    A context manager: leaving the block stops the group if it still runs, and returns when it has
    ended. `await group` is `wait` for asyncio. Iteration gives the lifecycle events from the first
    on, and ends with the group; each iterator starts anew. Methods may be called from any thread.

    supervisor: the loop that owns it. resources: what it needs besides processes. For procession
    itself. placed: the CPUs of the ranks, and how many threads they can use.
    unread: after `stop_when_unread`, whether nobody reads our standard output any more.
    stopper: who had it stopped, in words, for its report; to be set by who drives it.
    distant: False; for what deals with groups and jobs alike.
    """

    def __init__(
        self,
        spec: Spec,
        output: Output | None = None,
        server: Agent | None = None,
        on_event: Callable[[Event], object] | None = None,
        control: bool | None = None,
        payload: Payload | None = None,
    ) -> None:
        # A fork of the caller (start method "fork") is not kept waiting for them.
        plugins = chosen() if server is None else ()
        super().__init__(spec, control)
        try:
            jobs = RankJobs(spec, output, payload)
        except OSError as e:
            if e.errno not in SHORT:
                raise  # the request is at fault, not a shortage
            raise start_failed(spec, e) from e
        resources = self.resources = jobs.resources
        self.plan = jobs.plan  # of what is imported before the ranks are forked
        self.placed, self.notes = resources.places.placed, resources.places.notes
        try:
            server = server or jobs.lease()
            self.supervisor = Supervisor(spec, jobs, server)
        except BaseException as e:
            jobs.close(server, clean=False)
            if isinstance(e, OSError):
                raise start_failed(spec, e) from e
            raise
        self._take(self.supervisor, resources.streams, resources.run_dir, resources.run_id)
        if on_event is not None:
            self._tell(on_event)
        for handler in handlers_of(plugins, resources.asked):
            self._tell(handler)

    def _tell(self, handler: Callable[[Event], object]) -> None:
        """Have a handler called with each event; it may also have variables for the ranks."""
        self.supervisor.journal.subscribe(handler)
        give: Environment | None = getattr(handler, "environment", None)
        if callable(give):
            self.resources.environments.append(harmless_environment(handler, give))

    def expire(self) -> None:
        """Have a group that is patient (see `Stop`) end as soon as a rank has failed."""
        self.supervisor.request_impatience()

    # -- looking

    @property
    def state(self) -> Phase:
        """Where the group is in its life."""
        return self.supervisor.phase

    def pids(self) -> dict[int, int]:
        """Give the process of each rank of the current attempt that has or had one."""
        return {r.rank: r.pid for r in list(self.supervisor.records) if r.pid is not None}

    def exit_of(self, rank: int) -> Exit | None:
        """Give the exit status of a rank of the current attempt, None while it has not exited.

        For a rank that announced its exit code, and was ended by our own signal before it exited:
        the code that it announced.
        """
        states = self.supervisor.lifecycle.ranks
        if not states or states[rank].state is not Worker.EXITED:
            return None
        record = self.supervisor.records[rank]
        announced = announced_by(states[rank], record)
        return record.exit if announced is None else Exit(announced)

    def look(self) -> dict[str, Any]:
        """Describe the group as it is now, as plain data; see `looking.look_at` for the keys."""
        from procession.group.looking import look_at

        return look_at(self.spec, self.supervisor, self.resources)

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
        from procession.group.looking import stacks_of

        return stacks_of(self.supervisor, timeout, native=native)

    def share_activity(self, elsewhere: int) -> int:
        """Let output of ranks on other machines count as activity; see `Hangs`."""
        hangs = self.supervisor.hangs
        return 0 if hangs is None else hangs.share_activity(elsewhere)

    @property
    def failure(self) -> RankEnd | None:
        """What failed first in this attempt, as far as it is known without its files."""
        return self.supervisor.outcomes.first_failure(read=False)

    def stacks_of_failure(self) -> list[dict[str, Any]]:
        """Give where the ranks were when the group failed, as `stacks` does, by local rank."""
        first = self.spec.node.first(self.spec.nproc)
        found = self.supervisor.last_look.stacks
        return [{**each.as_dict(), "rank": each.rank - first} for each in found]

    def values_sent(self) -> dict[int, Body]:
        """Give the values of a function's ranks as they sent them, pickled."""
        records = self.supervisor.records
        return {r.rank: r.report.body for r in records if r.report and r.report.holds_value}

    def error_reports(self) -> dict[int, dict[str, Any]]:
        """Give the error reports of ranks that failed, as `results.exception_of` reads them."""
        records = self.supervisor.records
        return {r.rank: r.description for r in records if r.description}

    def hear(self, call: Callable[[Event], None]) -> None:
        """Have `call` called with each event, as `subscribe`, but in the supervisor's thread.

        For handlers that must know at once. Nothing is supervised while it works, so it must never
        wait: for no file, no lock, no other process.
        """
        self.supervisor.subscribe(call, inside=True)

    # -- the result

    def _error_of(self, rank: int) -> dict[str, Any] | None:
        return self.supervisor.records[rank].description or None

    def _returned(self) -> Iterator[tuple[int, Program, Body]]:
        for record in self.supervisor.records:
            if record.report is None:
                if record.refused and isinstance(self.spec.program, Function):
                    said = f"the value of rank {record.rank} is lost: {record.refused}"
                    raise ProcessionError(said)
                continue
            if record.report.holds_value:
                yield record.rank, self.spec.program_of(record.rank), record.report.body
            if record.report.good:
                record.report = None  # the value has been read, and may be large

    def __repr__(self) -> str:
        return f"<procession group {self.spec.name!r}: {self.spec.nproc} ranks, {self.state.name}>"
