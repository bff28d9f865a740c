"""What a job runs: one group for each node."""

from __future__ import annotations

from typing import Any

from procession.output.wiring import prefixes_of
from procession.preload.choose import plan_of
from procession.prepare.payload import pack
from procession.values.base import Value
from procession.values.environment import Node
from procession.values.errors import SpecError
from procession.values.policy import Logs
from procession.values.program import Function
from procession.values.spec import Spec, audible

PREFIX = "[{node}:{rank}] "


class Share(Value):
    """What each node runs. devices: the kind of accelerator of which each rank gets one; see
    `procession.devices`. gpus: how many of the node's visible GPUs each rank gets, 0 for all.
    """

    spec: Spec
    devices: str = ""
    gpus: int = 0


class Work(Value):
    """A job: `nodes` groups, each of `nproc` ranks, unless `sizes` says how many ranks each has.

    specs: one for each node, or one for all. sizes: where nodes come by themselves, for the nodes
    of this attempt; () while they are not known. devices, gpus: see `Share`.
    """

    specs: tuple[Spec, ...]
    nodes: int
    devices: str = ""
    gpus: int = 0
    sizes: tuple[int, ...] = ()

    @property
    def spec(self) -> Spec:
        """The spec of the first node, which has all that is common to the nodes."""
        return self.specs[0]

    @property
    def nproc(self) -> int:
        """How many ranks each node has."""
        return self.specs[0].nproc

    @property
    def world(self) -> int:
        """How many ranks the job has."""
        return sum(self.sizes) if self.sizes else self.nproc * self.nodes

    def size(self, node: int) -> int:
        """Give how many ranks a node has."""
        return self.sizes[node] if self.sizes else self.nproc

    def first(self, node: int) -> int:
        """Give the number in the job that the first rank of a node has."""
        return sum(self.sizes[:node]) if self.sizes else node * self.nproc

    def locate(self, rank: int) -> tuple[int, int]:
        """Give the node of a rank of the job, and its number there."""
        if not self.sizes:
            return divmod(rank, self.nproc)
        node = 0
        while node < len(self.sizes) - 1 and rank >= self.sizes[node]:
            rank -= self.sizes[node]
            node += 1
        return node, rank

    @property
    def whole(self) -> Spec:
        """All ranks of the job as one group, for what is said about them."""
        world = self.world
        node = Node(count=self.nodes, world=world, local_world=self.nproc)
        return self.spec.__replace__(nproc=world, node=node)

    def of(self, node: int) -> Spec:
        """Give what a node runs."""
        return self.specs[node % len(self.specs)]

    def prefixes(self) -> list[str]:
        """Give what stands before the lines of each rank of the job, as its nodes write it.

        A prefix that names the machine is not known here: it is "" then.
        """
        spec, world = self.spec, self.world
        if "{host" in (spec.logs.template(self.nproc) or ""):
            return [""] * world
        found: list[str] = []
        for node in range(self.nodes):
            place = Node(rank=node, number=self.first(node), world=world)
            found += prefixes_of(spec.__replace__(nproc=self.size(node), node=place))
        return found


def divide(share: Share, nodes: int, whole: Spec | None = None) -> Work:
    """Make a job of what each node is to run.

    whole: a spec of all ranks of the job, where arguments or variables are given by rank, else
    None. Raises SpecError for what cannot be done on several machines.
    """
    spec = share.spec
    if spec.stdin is not None:
        raise SpecError("stdin: ranks on other machines cannot read this process's input")
    if spec.start_method == "fork" and isinstance(spec.program, Function):
        raise SpecError('start_method "fork" is for this machine only: use "forkserver" or "spawn"')
    if share.devices not in ("", "auto"):
        from procession.devices import known_kind

        known_kind(share.devices)
    if spec.stop.patience != 0:
        raise SpecError("stop: patience is for the ranks of one machine")
    plain = spec.__replace__(logs=_logs(spec, nodes * spec.nproc), on_failure=None)
    if isinstance(spec.program, Function):
        specs = _of_function(plain, nodes, whole)
    elif whole is None:
        specs = [plain]
    else:
        specs = [_part(plain, whole, node) for node in range(nodes)]
    return Work(tuple(specs), nodes, devices=share.devices, gpus=share.gpus)


def _logs(spec: Spec, world: int) -> Logs:
    chosen, auto = spec.logs.prefix, spec.logs.__replace__(prefix="auto")
    unasked = "auto" if spec.hang.silence is None else audible(auto).prefix
    return spec.logs.__replace__(prefix=PREFIX if chosen == unasked and world > 1 else chosen)


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
    plan = plan_of(spec, named.modules, named.functions)
    empty: dict[str, Any] = {
        "args": ((),) * spec.nproc,
        "kwargs": ({},) * spec.nproc,
        "preload": plan.modules if plan is not None and plan.modules else None,
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
