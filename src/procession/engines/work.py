"""What a job is to run: the group of each node, cut out of the whole."""

from __future__ import annotations

from procession.errors import SpecError
from procession.payload import pack
from procession.policy import NO_RESTART, Logs, Restart
from procession.preloading import plan_of
from procession.spec import Function, Spec
from procession.values import Value

PREFIX = "[{node}:{rank}] "

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Share(Value):
    """What each node runs. devices: the kind of accelerator of which each rank gets one; see
    `procession.devices`. gpus: how many of the node's visible GPUs each rank gets, 0 for all.
    """

    spec: Spec
    devices: str = ""
    gpus: int = 0


class Work(Value):
    """A job: `nodes` groups, each of `nproc` ranks.

    specs: of each node, or one for all. restart: of the whole. The groups have none of their own,
    unless single ranks start again. devices, gpus: see `Share`.
    """

    specs: tuple[Spec, ...]
    nodes: int
    restart: Restart
    devices: str = ""
    gpus: int = 0

    @property
    def spec(self) -> Spec:
        """What stands for all of them."""
        return self.specs[0]

    @property
    def nproc(self) -> int:
        """How many ranks each node has."""
        return self.specs[0].nproc

    def of(self, node: int) -> Spec:
        """Give what a node runs."""
        return self.specs[node % len(self.specs)]


def divide(share: Share, nodes: int, whole: Spec | None = None) -> Work:
    """Make a job of what each node is to run.

    whole: the same for all ranks of the job, where their arguments or variables
    are given by rank. Raises SpecError for what cannot be done on several machines.
    """
    spec = share.spec
    if spec.stdin is not None:
        raise SpecError("stdin: ranks on other machines cannot read this process's input")
    if spec.start_method == "fork" and isinstance(spec.program, Function):
        raise SpecError('start_method "fork" is for this machine only: use "forkserver" or "spawn"')
    if spec.stop.patience != 0:
        raise SpecError("stop: patience is for the ranks of one machine")
    restart = spec.restart
    single = restart.scope == "rank" and restart.max > 0
    plain = spec.__replace__(
        logs=_logs(spec.logs, nodes * spec.nproc),
        restart=restart if single else NO_RESTART,
        on_failure=None,
    )
    if isinstance(spec.program, Function):
        specs = _of_function(plain, nodes, whole)
    elif whole is None:
        specs = [plain]
    else:
        specs = [_part(plain, whole, node) for node in range(nodes)]
    own = NO_RESTART if single else restart
    return Work(tuple(specs), nodes, own, devices=share.devices, gpus=share.gpus)


def _logs(logs: Logs, world: int) -> Logs:
    if logs.prefix == "auto" and world > 1:
        return logs.__replace__(prefix=PREFIX)
    return logs


def _part(spec: Spec, whole: Spec, node: int) -> Spec:
    here = slice(node * spec.nproc, (node + 1) * spec.nproc)
    programs = whole.programs[here]
    return spec.__replace__(
        args=whole.args[here],
        kwargs=whole.kwargs[here],
        env=whole.env[here],
        programs=programs,
        program=programs[0] if programs else whole.program,
    )


def _of_function(spec: Spec, nodes: int, whole: Spec | None) -> list[Spec]:
    program = spec.program
    assert isinstance(program, Function)
    packed, named = pack(whole or spec)
    plan = plan_of(spec, named)
    empty: dict[str, Any] = {
        "args": ((),) * spec.nproc,
        "kwargs": ({},) * spec.nproc,
        "preload": plan.modules if plan is not None and plan.modules else None,
        "learn": False,
    }
    specs: list[Spec] = []
    for node in range(nodes if whole is not None else 1):
        part = spec if whole is None else _part(spec, whole, node)
        arguments = packed.arguments
        if len(arguments) > 1:
            arguments = arguments[node * spec.nproc : (node + 1) * spec.nproc]
        call: Any = packed.__replace__(arguments=arguments)
        specs.append(part.__replace__(program=Function(call), **empty))
    return specs


__all__ = ["Share", "Work", "divide"]
