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
        (of a function: those that it and its arguments name), as far as the program cannot tell
        the difference; or a list of names, whatever the difference; or None. With
        PROCESSION_PRELOAD=none in the environment, "auto" is None.
    shared: a function without parameters (also a lambda or a closure) that loads what all ranks
        need: it is called once, before the ranks are forked, and its value is the first argument
        of each rank, which shares its memory with the others. For a script or module, a text
        such as 'data:load("train.bin")', for `procession.once`. See docs/shared.md.
    warm: keep the agent, with what it has imported, for the next run of this user that makes
        the same imports, also one of another process, and take one that is kept: True (for 600 s)
        or seconds. None: what PROCESSION_WARM in the environment says. See docs/warm.md.
    pass_fds: descriptors of this process that ranks inherit under the same numbers, 3 or more.
    control: whether the group can be seen and steered from other terminals (`procession ps`), by
        this user and root. None: if PROCESSION_CONTROL=1 is in the environment.
    on_failure: called after each failure, when its processes are gone and before anything starts
        again, with the facts; in a thread of procession, which waits for it. If it gives False, or
        raises, nothing starts again.
    on_event: called with each `Event` of the group, from the first on, in a thread for handlers.
        The group goes on meanwhile; at its end it waits five seconds for handlers, not longer. What
        one raises is logged, the first time, and harms nothing. It may have a method
        `environment(attempt, rank)` that gives variables for a rank that is about to start.

    Raises SpecError (a ValueError) before anything is started, if what is asked for cannot be done;
    StartFailed, with nothing left running, if a rank could not be started.
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
    lease, link_encryption: with an engine or a rendezvous only; see `start_on`, whose defaults None
        stands for.
    rendezvous: where programs meet that were started once on each of `nnodes` machines, a count or
        "MIN:MAX": "HOST:PORT", of one of the machines, or a mapping with "endpoint", "id",
        "local_addr", and the words of --rdzv-conf. Ranks are numbered throughout the job; mappings
        by rank, and the values that are returned, are those of this machine's ranks: [] where the
        job had enough others. See docs/several-machines.md.
    timeout: seconds after which the group is stopped and TimeoutError is raised; None: no limit.

    The value of a rank of a command is None. Raises GroupFailed, with the full report, when a rank
    failed; GroupStopped when somebody else had the group stopped (`procession stop`, Slurm), unless
    all ranks of this machine finished within the notice of its `Stop`; and what `start` or
    `start_on` raises.
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

    engine: who gives the nodes: "slurm" (in an allocation), "ray", or an engine as an object, such
        as `procession.engines.ssh.SshEngine(["h1", "h2"])`; see docs/clusters.md.
    nnodes: how many nodes; None: all that the engine has.
    lease: seconds without a word after which a node counts as lost, and ends its ranks.
    link_encryption: "auto": the links to nodes are encrypted (TLS 1.3) where Python is 3.13 or
        later at both ends, else authenticated only; "required": a node that cannot is refused.
    options: what `start` takes, except start method "fork". Ranks are numbered
        throughout the job, also in mappings by rank; `devices` are dealt out on each node.

    Returns the `Group` of all ranks on all nodes when they have reached the program. Raises what
    `start` raises, and EngineError if the engine cannot be used. See docs/clusters.md.
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
        if lasts and spec.start_method == "forkserver" and not (spec.warm or spec.pass_fds):
            early = boot.start_early()
    try:
        from procession.group.making import begin

        return begin(spec, None, control, on_event=on_event, started=True)
    finally:
        if early is not None and early in boot.early:
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
    if timeout is None:
        return
    if type(timeout) not in (int, float) or not 0 <= timeout <= threading.TIMEOUT_MAX:
        raise SpecError(f"timeout must be seconds, 0 or more, or None, not {timeout!r}")
