"""`Group`: a running group as its user holds it."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Mapping

from procession.agent.client import Agent
from procession.driver.local import LocalDriver
from procession.driver.plugins import Environment, chosen, handlers_of, harmless_environment
from procession.explain.ends import start_failed
from procession.group.handle import Handle
from procession.group.result import failed_by
from procession.output.wiring import Output
from procession.prepare.jobs import RankJobs
from procession.prepare.payload import Payload
from procession.values.errors import GroupEnd, GroupFailed
from procession.values.events import Event
from procession.values.exit import Exit
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.preload.plan import Plan
    from procession.prepare.placing import Placed
    from procession.prepare.resources import Resources

SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Group(Handle):
    """Ranks that share fate. Made by `start`.

    A context manager: leaving the block stops the group if it still runs, and returns when it has
    ended. `await group` is `wait` for asyncio. Iteration gives the lifecycle events from the first
    on, and ends with the group; each iterator starts anew. Methods may be called from any thread.

    Ranks are numbered throughout the group, also where they are on several machines: there, while
    the main thread waits for the group, in a program that does not take SIGTERM itself, that signal
    stops the group first, with its whole grace period, and then ends the program.

    driver: the loop that owns it, for procession itself. environments: to be filled with what gives
    more variables for ranks. For groups of this machine: resources: what it needs besides
    processes; plan: of what is imported before the ranks are forked; placed: the CPUs of the ranks,
    and how many threads they can use.
    unread: after `stop_when_unread`, whether nobody reads our standard output any more.
    stopper: who had it stopped, in words, for its report; to be set by who drives it.
    """

    resources: Resources
    plan: Plan | None = None
    placed: Placed
    environments: list[Callable[[int, int], Mapping[str, str]]]

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


def local_group(
    spec: Spec,
    output: Output | None = None,
    server: Agent | None = None,
    on_event: Callable[[Event], object] | None = None,
    control: bool | None = None,
    payload: Payload | None = None,
) -> Group:
    """Make a group on this machine. Raises StartFailed, SpecError and OSError."""
    # A fork of the caller (start method "fork") is not kept waiting for them.
    plugins = chosen() if server is None else ()
    try:
        jobs = RankJobs(spec, output, payload)
    except OSError as e:
        if e.errno not in SHORT:
            raise  # the request is at fault, not a shortage
        raise start_failed(spec, e) from e
    resources = jobs.resources
    try:
        server = server or jobs.lease()
        driver = LocalDriver(spec, jobs, server)
    except BaseException as e:
        jobs.close(server, clean=False)
        if isinstance(e, OSError):
            raise start_failed(spec, e) from e
        raise
    group = Group(driver, resources.streams, resources.run_dir, resources.run_id, control)
    group.resources, group.environments = resources, resources.environments
    group.plan, group.placed, group.notes = (
        jobs.plan,
        resources.places.placed,
        resources.places.notes,
    )
    for handler in (
        *([on_event] if on_event is not None else []),
        *handlers_of(plugins, resources.asked),
    ):
        group.tell(handler)
    return group


Job = Group  # what `start_on` gives
