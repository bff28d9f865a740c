"""`run` and `start`: from what was asked to a running group.

An interpreter takes as long to start as most of this package to import. So in the first launch of
a process, when what was asked for has been checked, the agent starts before the rest is
imported.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from procession.values.errors import GroupEnd, SpecError
from procession.values.placement import Placement
from procession.values.policy import Hang, Logs, Restart, Stop
from procession.values.program import Program
from procession.values.spec import make_spec, read_warm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from procession.engines.contract import Engine
    from procession.group.group import Group
    from procession.values.events import Event

    OnEvent = Callable[[Event], object]

WARM_VARIABLE = "PROCESSION_WARM"
LINKS = ("lease", "link_encryption")  # parameters about the links to agents


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
    shared: Callable[[], Any] | str | None = None,
    warm: bool | float | None = None,
    pass_fds: Sequence[int] = (),
    control: bool | None = None,
    on_failure: Callable[[GroupEnd], object] | None = None,
    on_event: OnEvent | None = None,
) -> Group:
    """Start `nproc` copies of a program as one group, and return when all ranks have started.

    program: a function (a lambda, a closure or a notebook function, too), a command as a list of
        strings, or the name of a program.
    nproc: the number of ranks.
    args, kwargs: arguments of the function, or `args` of the command. Equal for all ranks, or a
        mapping from rank to arguments.
    env: variables to add to the environment of this process, for all ranks or by rank. None removes
        a variable. A function has the `sys.path` of this process, whatever PYTHONPATH is there.
    devices: the kind of accelerator to assign, one device per rank: "cuda", "rocm", "intel",
        "ascend", "neuron", "tpu", "jax", or "auto" to detect the kind. None: no assignment.
    cwd: the directory of the ranks. None: the directory of this process.
    name: the name in reports and directories. None: the name of the program.
    start_method: "forkserver" (a fork of a small new interpreter), "spawn" (a new interpreter per
        rank) or "fork" (for functions: a fork of this process with its state). Commands are always
        executed.
    stdin: the rank that reads the standard input of this process. The others read nothing.
    logs, stop, restart, placement, hang: policies; see `Logs`, `Stop`, `Restart`, `Placement`,
        `Hang`.
    preload: modules to import once before the ranks are forked (start method "forkserver", Python
        programs). "auto": the imports of the program, as far as the program cannot notice. A list:
        these modules. None: no modules. PROCESSION_PRELOAD=none turns "auto" off.
    shared: a function without parameters that loads what all ranks need. procession calls it once,
        before it forks the ranks. Its value is the first argument of each rank, in shared memory.
        For a script or module, a text such as 'data:load("train.bin")', for `procession.once`. See
        docs/guides/resources.md.
    warm: keep the agent with its imports for the next run of this user, and use a kept one. True
        (600 s) or seconds. None: the value of PROCESSION_WARM. See docs/guides/faster.md.
    pass_fds: file descriptors of this process that ranks inherit with the same numbers, 3 or more.
    control: whether other terminals can see and stop the group (`procession ps`). None: whether
        PROCESSION_CONTROL=1 is set.
    on_failure: a function to call after each failure, when its processes are gone, in a thread of
        procession. If it returns False or raises, the group is not restarted.
    on_event: a function to call with each `Event` of the group, in a thread for handlers. At its
        end, the group waits five seconds for handlers. The first exception is logged. It can have
        a method `environment(attempt, rank)` that returns variables for a rank.

    Raises SpecError (a ValueError) before any process starts if the request is invalid, and
    StartFailed if a rank could not start; nothing is then left.
    """
    return _started(locals())


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
    shared: Callable[[], Any] | str | None = None,
    warm: bool | float | None = None,
    pass_fds: Sequence[int] = (),
    control: bool | None = None,
    on_failure: Callable[[GroupEnd], object] | None = None,
    on_event: OnEvent | None = None,
    engine: str | Engine | None = None,
    nnodes: int | str | None = None,
    lease: float | None = None,
    link_encryption: str | None = None,
    rendezvous: str | Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> list[Any]:
    """Run `nproc` copies of a program as one group, and return their values by rank.

    Parameters are those of `start`, and:

    engine, nnodes: run `nproc` ranks on each of `nnodes` nodes of an engine; see `start_on`. None:
        on this machine.
    lease, link_encryption: with an engine or a rendezvous only; see `start_on`. None: the defaults
        of `start_on`.
    rendezvous: where programs meet that run once on each of `nnodes` nodes (a number or "MIN:MAX").
        "HOST:PORT" of one of the nodes, or a mapping with "endpoint", "id", "local_addr" and the
        names of --rdzv-conf. Ranks are numbered in the whole job. Mappings by rank and the
        returned values are those of this node: [] if the job did not need it. See
        docs/clusters/rendezvous.md.
    timeout: seconds until the group is stopped and TimeoutError is raised. None: no limit.

    The value of a rank of a command is None.

    Raises GroupFailed, with the report, if a rank failed; GroupStopped if another process stopped
    the group (`procession stop`, Slurm), unless all ranks of this machine finished within the
    notice of its `Stop`; and the exceptions of `start` or `start_on`.
    """
    given = locals()
    _check_timeout(timeout)
    if rendezvous is not None:
        if given.pop("engine") is not None:
            raise SpecError("engine and rendezvous cannot go together")
        from procession.api.together import run_together

        return run_together(given.pop("program"), **given)
    del given["timeout"], given["rendezvous"]
    group = _started_on(given) if engine is not None else _started(_without_engine(given))
    from procession.group.result import StillRuns

    with group:
        try:
            return group.wait_for_values(timeout)
        except StillRuns:
            from procession.explain.report import stacks_of

            group.stop(stacks=True)
            said = f"{group.spec.name} was stopped: it had not ended after {timeout:g} s"
            end = group.end
            raise TimeoutError("\n".join([said, *(stacks_of(end) if end else [])])) from None


def start_on(
    engine: str | Engine,
    program: Callable[..., Any] | Sequence[str] | str | Program,
    *,
    nnodes: int | None = None,
    nproc: int = 1,
    lease: float = 5.0,
    link_encryption: str = "auto",
    **options: Any,
) -> Group:
    """Start `nproc` copies of a program on each of `nnodes` nodes as one group.

    engine: what provides the nodes: "slurm" (in an allocation), "ray", or an engine object such as
        `procession.engines.ssh.SshEngine(["h1", "h2"])`. See docs/clusters/index.md.
    nnodes: the number of nodes. None: all nodes of the engine.
    lease: seconds without contact after which a node is lost and stops its ranks.
    link_encryption: "auto" encrypts the links to nodes (TLS 1.3) if both Pythons are 3.13 or later,
        and authenticates them otherwise. "required" refuses nodes that cannot encrypt.
    options: parameters of `start`, except the start method "fork". Ranks are numbered in the whole
        job, also in mappings by rank. `devices` are assigned on each node.

    Returns the `Group` of all ranks when they have started. Raises the exceptions of `start`, and
    EngineError if the engine cannot be used.
    """
    given = {"engine": engine, "nnodes": nnodes, "lease": lease, "link_encryption": link_encryption}
    return _started_on({"program": program, "nproc": nproc, **given, **options})


def _started(given: dict[str, Any]) -> Group:
    """Start a group. given: the parameters of `start` by name."""
    on_event, control, devices = (given.pop(each) for each in ("on_event", "control", "devices"))
    if given["warm"] is None and os.environ.get(WARM_VARIABLE):
        given["warm"] = read_warm(os.environ[WARM_VARIABLE], WARM_VARIABLE)
    spec = make_spec(**given)
    if on_event is not None and not callable(on_event):
        raise SpecError(f"on_event must be a function of an event, not {on_event!r}")
    if devices is not None:
        from procession.devices import deal

        spec = deal(spec, devices)
    from procession.agent import boot

    early = None
    if "procession.group.making" not in sys.modules:  # the first launch: its agent first of all
        # An agent does not outlive the thread that has started it.
        lasts = threading.current_thread() is threading.main_thread()
        if lasts and spec.start_method == "forkserver" and not spec.warm:
            early = boot.start_early()
    try:
        from procession.group.making import begin_group

        return begin_group(spec, None, control, on_event=on_event, started=True)
    finally:
        if early in boot.early:
            from procession.agent.pool import end_untaken

            end_untaken(early)


def _started_on(given: dict[str, Any]) -> Group:
    """Start a job. given: the parameters of `start_on` by name; None stands for its defaults."""
    from procession.api.jobs import make_job

    job = make_job(**given)
    job.start()
    try:
        job.wait_started()
    except BaseException:
        job.kill()
        raise
    return job


def _without_engine(given: dict[str, Any]) -> dict[str, Any]:
    """Give the parameters of `start` out of those of `run`. Raises SpecError for others."""
    of_engine = {each: given.pop(each) for each in ("engine", "nnodes", *LINKS)}
    links = [each for each in LINKS if of_engine[each] is not None]
    needs = 'an engine: engine="slurm", engine="ray" or engine="ssh"'
    if links:
        raise SpecError(f"{' and '.join(links)} need {needs}")
    if of_engine["nnodes"] not in (None, 1):
        needs += ', or rendezvous="HOST:PORT"'
        raise SpecError(f"nnodes={of_engine['nnodes']!r} needs {needs}")
    return given


def _check_timeout(timeout: Any) -> None:
    number = type(timeout) in (int, float)
    if timeout is not None and not (number and 0 <= timeout <= threading.TIMEOUT_MAX):
        raise SpecError(f"timeout must be seconds, 0 or more, or None, not {timeout!r}")
