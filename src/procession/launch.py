"""`run` and `start`: from what was asked to a running group."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence

from procession.ends import start_failed
from procession.errors import GroupEnd, SpecError
from procession.forkserver.client import ForkServer
from procession.group import Group
from procession.output.plan import Output
from procession.placement import Placement
from procession.policy import Hang, Logs, Restart, Stop
from procession.spawner import fork_server
from procession.spec import Function, Program, Spec, make_spec
from procession.system.latch import Latch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from procession.engines.contract import Engine
    from procession.engines.job import Job
    from procession.events import Event

    OnEvent = Callable[[Event], object]


def start(
    program: Callable[..., Any] | Sequence[str] | str | Program,
    *,
    nproc: int = 1,
    args: Sequence[Any] | Mapping[int, Sequence[Any]] = (),
    kwargs: Mapping[str, Any] | Mapping[int, Mapping[str, Any]] | None = None,
    env: Mapping[str, str | None] | Mapping[int, Mapping[str, str | None]] | None = None,
    devices: str | None = None,
    cwd: str | os.PathLike[str] | None = None,
    name: str | None = None,
    start_method: str = "forkserver",
    stdin: int | None = None,
    logs: Logs | None = None,
    stop: Stop | None = None,
    restart: Restart | None = None,
    hang: Hang | None = None,
    placement: Placement | None = None,
    preload: Literal["auto"] | Sequence[str] | None = "auto",
    learn: bool = True,
    control: bool | None = None,
    on_failure: Callable[[GroupEnd], object] | None = None,
    on_event: OnEvent | None = None,
) -> Group:
    """Start `nproc` copies of a program as one group, and return when all have reached it.

    program: a function (also a lambda, a closure, or one of a script or notebook), a command as a
        list of strings, or the name of a program.
    nproc: how many ranks.
    args, kwargs: for the function, or (args) for the command; common to all ranks, or a mapping
        from rank to them.
    env: variables to add to this process's environment; common or by rank. None takes one away.
    devices: the kind of accelerator of which each rank gets one of its own: "cuda", "rocm",
        "intel", "ascend", "neuron", "tpu", "jax", or "auto" for what there is; see
        `procession.devices`. None: all ranks see what this process sees.
    cwd: the ranks' directory; this process's if None.
    name: for reports and directories; by default the program's.
    start_method: "forkserver" (a fork of a small fresh interpreter), "spawn" (a fresh interpreter
        per rank) or "fork" (functions: a fork of this process, with its live state). A command is
        started by exec in any case.
    stdin: the rank that gets this process's standard input; the others read nothing.
    logs, stop, restart, placement, hang: policies; see `Logs`, `Stop`, `Restart`, `Placement`,
        `Hang`.
    preload: modules that are imported once, before the ranks are forked (start method
        "forkserver", Python programs): "auto", those that the program is going to import anyway
        (of a function: that this process has imported), as far as the program cannot tell the
        difference; or a list of names, whatever the difference; or None. With
        PROCESSION_PRELOAD=none in the environment, "auto" is None.
    learn: with "auto", keep in the user's cache directory what rank 0 had imported of the same
        packages when the program came to its end, and preload that, too, the next time.
    control: whether the group can be seen and steered from other terminals (`procession ps`), by
        this user and root. None: if PROCESSION_CONTROL=1 is in the environment.
    on_failure: called after each failure, when its processes are gone and before anything starts
        again, with the facts; in a thread of procession, which waits for it. If it gives False, or
        raises, nothing starts again.
    on_event: called with each `Event` of the group, from the first on, in the thread that
        supervises it: it must be quick. What it raises is logged, the first time, and harms
        nothing. It may have a method `environment(attempt, rank)` that gives variables for a rank
        that is about to start.

    Raises SpecError (a ValueError) before anything is started, if what is asked for cannot be done;
    StartFailed, with nothing left running, if a rank could not be started.
    """
    spec = make_spec(
        program,
        nproc=nproc,
        args=args,
        kwargs=kwargs,
        env=env,
        cwd=cwd,
        name=name,
        start_method=start_method,
        stdin=stdin,
        logs=logs,
        stop=stop,
        restart=restart,
        hang=hang,
        placement=placement,
        preload=preload,
        learn=learn,
        on_failure=on_failure,
    )
    if on_event is not None and not callable(on_event):  # pyright: ignore[reportUnnecessaryComparison]
        raise SpecError(f"on_event must be a function of an event, not {on_event!r}")
    if devices is not None:
        from procession.devices import deal

        spec = deal(spec, devices)
    return start_spec(spec, on_event, control)


def start_spec(spec: Spec, on_event: OnEvent | None = None, control: bool | None = None) -> Group:
    """Start a group that is described by a checked `Spec`; see `start`."""
    making = _Making(spec, None, on_event, control)
    try:
        try:
            group = _made_by(making)
        except OSError as e:
            raise SpecError(f"cannot prepare the run: {e}") from e
        group.wait_started()
        return group
    except BaseException:
        making.give_up()
        raise


def begin(spec: Spec, output: Output | None = None) -> Group:
    """Make a group, and return while it starts; see `Group.wait_started`.

    output: what is to become of its output, where its `Logs` do not say it.

    Whenever a KeyboardInterrupt comes, either it is raised and nothing is left of the group, or the
    group is given. Raises SpecError, StartFailed, and OSError if its files cannot be made.
    """
    making = _Making(spec, output)
    try:
        return _made_by(making)
    except BaseException:
        making.give_up()
        raise


def _made_by(making: _Making) -> Group:
    spec = making.spec
    if spec.start_method == "fork" and isinstance(spec.program, Function):
        # The ranks are forks of the thread that asks for them.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            making.server = fork_server(spec, mask)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    making.start()
    if making.fault is not None:
        raise making.fault
    assert making.group is not None
    return making.group


def run(
    program: Callable[..., Any] | Sequence[str] | str | Program,
    *,
    nproc: int = 1,
    args: Sequence[Any] | Mapping[int, Sequence[Any]] = (),
    kwargs: Mapping[str, Any] | Mapping[int, Mapping[str, Any]] | None = None,
    env: Mapping[str, str | None] | Mapping[int, Mapping[str, str | None]] | None = None,
    devices: str | None = None,
    cwd: str | os.PathLike[str] | None = None,
    name: str | None = None,
    start_method: str = "forkserver",
    stdin: int | None = None,
    logs: Logs | None = None,
    stop: Stop | None = None,
    restart: Restart | None = None,
    hang: Hang | None = None,
    placement: Placement | None = None,
    preload: Literal["auto"] | Sequence[str] | None = "auto",
    learn: bool = True,
    control: bool | None = None,
    on_failure: Callable[[GroupEnd], object] | None = None,
    on_event: OnEvent | None = None,
    engine: str | Engine | None = None,
    nnodes: int | None = None,
    timeout: float | None = None,
) -> list[Any]:
    """Run `nproc` copies of a program as one group, and return their values by rank.

    Parameters are those of `start`, and:

    engine, nnodes: run `nproc` ranks on each of `nnodes` nodes of an engine; see `start_on`. None:
        on this machine.
    timeout: seconds after which the group is stopped and TimeoutError is raised; None: no limit.

    The value of a rank of a command is None. Raises GroupFailed, with the full report, when a rank
    failed, and what `start` or `start_on` raises.
    """
    _check_timeout(timeout)
    options: dict[str, Any] = {
        "args": args,
        "kwargs": kwargs,
        "env": env,
        "devices": devices,
        "cwd": cwd,
        "name": name,
        "start_method": start_method,
        "stdin": stdin,
        "logs": logs,
        "stop": stop,
        "restart": restart,
        "hang": hang,
        "placement": placement,
        "preload": preload,
        "learn": learn,
        "on_failure": on_failure,
        "on_event": on_event,
    }
    group: Group | Job
    if engine is not None:
        if control:
            raise SpecError("control: a job on several nodes is not steered from other terminals")
        group = start_on(engine, program, nnodes=nnodes, nproc=nproc, **options)
    elif nnodes not in (None, 1):
        raise SpecError(f'nnodes={nnodes!r} needs an engine: engine="slurm" or engine="ray"')
    else:
        group = start(program, nproc=nproc, control=control, **options)
    with group:
        try:
            return group.wait(timeout).values
        except TimeoutError:
            group.stop()
            raise TimeoutError(
                f"{group.spec.name} was stopped: it had not ended after {timeout:g} s"
            ) from None


def start_on(
    engine: str | Engine,
    program: Callable[..., Any] | Sequence[str] | str | Program,
    *,
    nnodes: int | None = None,
    nproc: int = 1,
    lease: float = 5.0,
    **options: Any,
) -> Job:
    """Start `nproc` copies of a program on each of `nnodes` nodes as one group.

    engine: who gives the nodes: "slurm" (in an allocation), or "ray".
    nnodes: how many nodes; None: all that the engine has.
    lease: seconds without a word after which a node counts as lost, and ends its ranks.
    options: what `start` takes, but for `control` and start method "fork". Ranks are numbered
        throughout the job, also in mappings by rank; `devices` are dealt out on each node.

    Returns a `Job`, which has the methods of a `Group` that make sense for several machines, when
    all ranks have reached the program. Raises what `start` raises, and EngineError if the engine
    cannot be used. See docs/clusters.md.
    """
    from procession.engines.launching import make_job

    job = make_job(program, engine=engine, nnodes=nnodes, nproc=nproc, lease=lease, **options)
    job.start()
    try:
        job.wait_started()
    except BaseException:
        job.kill()
        raise
    return job


def _check_timeout(timeout: Any) -> None:
    if timeout is None:
        return
    if type(timeout) not in (int, float) or not 0 <= timeout <= threading.TIMEOUT_MAX:
        raise SpecError(f"timeout must be seconds, 0 or more, or None, not {timeout!r}")


class _Making:
    """The making of a group in the thread of its supervisor, where no KeyboardInterrupt is raised.

    Rejected: to make it in the caller's thread with every step undone in `except`. Between a fork
    and the next statement there is always room for one.
    """

    def __init__(
        self,
        spec: Spec,
        output: Output | None,
        on_event: OnEvent | None = None,
        control: bool | None = None,
    ) -> None:
        self.spec = spec
        self._on_event = on_event
        self.control = control
        self.output = output
        self.server: ForkServer | None = None
        self.group: Group | None = None
        self.fault: BaseException | None = None
        self._unwanted = False
        self._made = Latch()
        self._thread = threading.Thread(target=self._run, name="procession", daemon=True)

    def start(self) -> None:
        """Start the thread, and return when there is a group, or a fault."""
        try:
            self._thread.start()
        except RuntimeError as e:
            if isinstance(e.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None  # it came in the middle of a lock's release
            fault = OSError(errno.EAGAIN, f"its supervisor gets no thread ({e})")
            raise start_failed(self.spec, fault) from e
        self._made.wait()

    def _run(self) -> None:
        try:
            group = Group(self.spec, self.output, self.server, self._on_event, control=self.control)
        except BaseException as e:
            if self.server is not None:
                self.server.close()
            self.fault = e
            self._made.set()
            return
        self.group = group
        if group.notes:
            import logging

            for note in group.notes:
                logging.getLogger("procession").warning("procession: %s", note)
        if self._unwanted:
            group.kill(wait=False)
        self._made.set()
        group.drive()

    def give_up(self) -> None:
        """See that nothing is left of the group, however far it came."""
        self._unwanted = True
        while not self._made.wait(0.2):
            if self._thread.ident is None:  # it was never started
                if self.server is not None:
                    self.server.close()
                return
        if self.group is not None:
            self.group.kill()
