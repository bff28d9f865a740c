"""Makes a group, in the thread that will supervise it.

No KeyboardInterrupt is raised in that thread, so none can leave a group half made.
"""

from __future__ import annotations

import _thread
import errno
import threading
from _contextvars import copy_context  # the module around it is of no use here
from collections.abc import Callable

from procession.agent.client import Agent
from procession.driver.local import LocalDriver
from procession.driver.plugins import chosen, handlers_of
from procession.explain.ends import start_failed
from procession.group.group import Group
from procession.output.wiring import Output
from procession.prepare.jobs import RankJobs, fork_server
from procession.prepare.payload import Payload
from procession.system import plain
from procession.system.processes import BlockedSignals
from procession.system.threads import Latch
from procession.values.errors import SpecError, StartFailed
from procession.values.program import Function
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.values.events import Event

    OnEvent = Callable[[Event], object]

SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def begin_group(
    spec: Spec,
    output: Output | None = None,
    control: bool | None = None,
    server: Agent | None = None,
    *,
    on_event: OnEvent | None = None,
    started: bool = False,
) -> Group:
    """Make a group, and return while it starts. spec: has been checked.

    started: return when it has started; see `start`. output: where its output goes, if its `Logs`
    do not say so. control: as for `start`. server: for start method "fork", an
    agent that is a fork of this process, or of one like it. What its ranks call was given then; the
    program of `spec` is not looked at.

    If a KeyboardInterrupt comes, either it is raised and nothing is left of the group, or the group
    is returned. Raises SpecError, StartFailed, and OSError if its files cannot be made, which for
    `started` is a SpecError.
    """
    making = _Making(spec, output, on_event, control, server)
    try:
        try:
            if (
                server is None
                and spec.start_method == "fork"
                and isinstance(spec.program, Function)
            ):
                # The ranks are forks of the thread that asks for them.
                with BlockedSignals([plain.SIGINT]) as mask:
                    making.server = fork_server(spec, mask)
            group = making.make()
        except OSError as e:
            if started:
                raise SpecError(f"cannot prepare the run: {e} [P305]") from e
            raise
        if started:
            group.wait_started()
        return group
    except BaseException:
        making.give_up()
        raise


class _Making:
    """The making of a group in the thread of its driver, where no KeyboardInterrupt is raised.

    Only functions and arguments are pickled in the caller's thread, before: they may depend on its
    context variables and thread-locals.

    Rejected: making it in the caller's thread, with every step undone in `except`. An interrupt can
    always come between a fork and the next statement. Also `Thread.start` in the caller's thread:
    an interrupt between two of its steps leaves a thread that `threading` lists for ever, and that
    runs or not. So another thread, which one call of C starts, calls it. Whoever takes `_claim`
    goes on: that thread, or `give_up`.
    """

    def __init__(
        self,
        spec: Spec,
        output: Output | None,
        on_event: OnEvent | None,
        control: bool | None,
        server: Agent | None,
    ) -> None:
        self._spec = spec
        self._on_event = on_event
        self._control = control
        self._output = output
        self.server = server
        self._group: Group | None = None
        self._fault: BaseException | None = None
        self._unwanted = False
        self._made = Latch()
        self._payload = Payload()
        self._claim = _thread.allocate_lock()
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="procession", daemon=True
        )

    def make(self) -> Group:
        """Pickle, start the thread, and give the group. Raises what went wrong there."""
        try:
            self._payload.fill_standard()
            self._payload.make(self._spec)
        except OSError as e:
            if e.errno not in SHORT:
                raise
            raise start_failed(self._spec, e) from e
        try:
            _thread.start_new_thread(self._start_thread, ())
        except RuntimeError as e:
            raise self._no_thread(e) from e
        self._made.wait()
        if self._fault is not None:
            raise self._fault
        assert self._group is not None
        return self._group

    def _start_thread(self) -> None:
        if not self._claim.acquire(blocking=False):
            return  # nobody wants it any more
        try:
            self._thread.start()
        except RuntimeError as e:
            self._end(self._no_thread(e))

    def _no_thread(self, e: RuntimeError) -> StartFailed:
        fault = OSError(errno.EAGAIN, f"its driver gets no thread ({e})")
        return start_failed(self._spec, fault)

    def _run(self) -> None:
        try:
            around = self.server, self._on_event, self._control, self._payload
            group = self._group = local_group(self._spec, self._output, *around)
        except BaseException as e:
            self._end(e)
            return
        if group.notes:
            import logging

            for note in group.notes:
                logging.getLogger("procession").warning("procession: %s", note)
        if self._unwanted:
            group.kill(wait=False)
        group.drive(self._made.set)

    def _end(self, fault: BaseException) -> None:
        """There will be no group."""
        self._close()
        self._fault = fault
        self._made.set()

    def _close(self) -> None:
        self._payload.close()
        if self.server is not None:
            self.server.close()

    def give_up(self) -> None:
        """End the group, however far its making came; nothing is left of it."""
        self._unwanted = True
        if self._claim.acquire(blocking=False):
            self._close()  # its thread has not begun, and will not
            return
        self._made.wait()
        if self._group is not None:
            self._group.kill()


def local_group(
    spec: Spec,
    output: Output | None = None,
    server: Agent | None = None,
    on_event: OnEvent | None = None,
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
    group = Group(driver, control)
    group.resources, group.environments = resources, resources.environments
    group.plan, group.placed, group.notes = (
        jobs.plan,
        resources.places.placed,
        resources.places.notes,
    )
    for handler in handlers_of(plugins, resources.asked, on_event):
        group.tell(handler)
    return group
