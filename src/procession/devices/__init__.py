"""Devices: what the environment of each rank must say so that it uses its own accelerator.

`environment` is pure: from what a rank inherits, and its number, to its variables. `deal` looks at
this machine and does it for all ranks of a group; `procession.run(..., devices="cuda")` and
`procession run --devices` are that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from procession.devices import ascend, cuda, intel, jax, neuron, rocm, tpu
from procession.devices.seat import Seat, Variables, read_devices
from procession.devices.topology import Topology
from procession.errors import SpecError
from procession.spec import Spec
from procession.system import accelerators
from procession.system.ports import free_port

AUTO = "auto"


@dataclass(frozen=True)
class _Kind:
    environment: Callable[[Seat], Variables]
    lists: tuple[str, ...]  # the variables that name devices
    found_as: str = ""  # what `system.accelerators` calls it
    meets: bool = False  # whether its ranks need a meeting point of their own


_KINDS: dict[str, _Kind] = {
    "cuda": _Kind(cuda.environment, (cuda.NAME,), "NVIDIA"),
    "rocm": _Kind(rocm.environment, (rocm.HIP, rocm.ROCR, rocm.CUDA), "AMD"),
    "intel": _Kind(intel.environment, (intel.MASK, intel.SELECTOR), "Intel"),
    "ascend": _Kind(ascend.environment, (ascend.NAME,), "Ascend"),
    "neuron": _Kind(neuron.environment, (neuron.CORES,), "Neuron", meets=True),
    "tpu": _Kind(tpu.environment, (), "TPU"),
    "jax": _Kind(jax.environment, (jax.NAME,), meets=True),
}
KINDS = tuple(_KINDS)


def environment(
    kind: str,
    *,
    local_rank: int,
    local_world_size: int,
    inherited: Mapping[str, str],
    rank: int | None = None,
    world_size: int | None = None,
    count: int | None = None,
    endpoint: str = "",
    topology: Topology | None = None,
) -> Variables:
    """Give the variables to add to one rank's environment; None takes one away.

    kind: one of `KINDS`.
    local_rank, local_world_size: the rank's number on its machine, and how many ranks it has.
    inherited: the environment that the rank starts from. Devices that it names are dealt out in
        their order, whatever their names look like.
    rank, world_size: among all machines; by default the local ones.
    count: how many devices the machine has, for where nothing is inherited; None: not known, and
        then not checked.
    endpoint: `host:port` at which the ranks of Neuron and JAX meet; "": left unsaid.
    topology: of the TPU; None: from the inherited variables.

    A rank that is given one device of its own finds it as number 0, and `LOCAL_RANK` is 0. Raises
    SpecError (a ValueError) with one line: for an unknown kind, for more ranks than devices, and
    for a list that is empty, names a device twice, or cannot be read.
    """
    known = _known(kind)
    if not 0 <= local_rank < local_world_size:
        raise SpecError(f"local rank {local_rank}: the ranks are 0 to {local_world_size - 1}")
    seat = Seat(
        local_rank=local_rank,
        local_world_size=local_world_size,
        rank=local_rank if rank is None else rank,
        world_size=local_world_size if world_size is None else world_size,
        inherited=inherited,
        count=count,
        endpoint=endpoint,
        topology=topology,
    )
    return known.environment(seat)


def _known(kind: object) -> _Kind:
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SpecError(f"devices must be one of {', '.join((AUTO, *KINDS))}, not {kind!r}")
    return _KINDS[kind]


def detect(root: str = "/", inherited: Mapping[str, str] = os.environ) -> str | None:
    """Give the kind of this machine's accelerators, None if it has none.

    Raises SpecError if it has more than one kind. root: where /dev and /sys are.
    """
    found = [a for a in accelerators.find(root, inherited) if a.count]
    if len(found) > 1:
        raise SpecError(
            f"this machine has devices of {' and '.join(a.kind for a in found)}: "
            "say which kind the ranks use"
        )
    names = [name for name, kind in _KINDS.items() for a in found if a.kind == kind.found_as]
    return names[0] if names else None


def deal(
    spec: Spec, kind: str | None, *, inherited: Mapping[str, str] | None = None, root: str = "/"
) -> Spec:
    """Give each rank of a group its device: `spec` with the variables added to its `env`.

    kind: one of `KINDS`; "auto": what `detect` finds, and nothing where there is nothing; None:
        nothing.
    inherited: the launcher's environment, by default this process's.

    What `spec.env` says for all ranks alike counts as inherited: devices that it names are dealt
    out. What it says for single ranks stands, and a rank whose devices it names gets no other.
    Raises SpecError.
    """
    base = os.environ if inherited is None else inherited
    if kind == AUTO:
        kind = detect(root, base)
    if kind is None:
        return spec
    common = {
        name: value
        for name, value in spec.env[0].items()
        if all(name in e and e[name] == value for e in spec.env)
    }
    merged = {**base, **common}
    ours = {name: value for name, value in merged.items() if value is not None}
    told = _of_this_machine(kind, spec, ours, root)
    lists, node = _known(kind).lists, spec.node
    env: list[Variables] = []
    for rank in range(spec.nproc):
        own = {n: v for n, v in spec.env[rank].items() if n not in common}
        by_hand = lists if any(n in own for n in lists) else ()
        dealt = environment(
            kind,
            local_rank=node.local + rank,
            local_world_size=node.local_size(spec.nproc),
            rank=node.first(spec.nproc) + rank,
            world_size=node.size(spec.nproc),
            inherited={n: v for n, v in ours.items() if n not in by_hand},
            count=None if by_hand else told.count,
            endpoint=told.endpoint,
            topology=told.topology,
        )
        dealt = {n: v for n, v in dealt.items() if n not in by_hand}
        env.append({**common, **dealt, **own})
    return replace(spec, env=tuple(env))


def deal_unseen(spec: Spec, kind: str, inherited: Mapping[str, str] = os.environ) -> Spec:
    """Give each rank of a group its device without a look at what this machine has.

    What `spec.env` says stands. Raises SpecError if `inherited` names too few devices.
    """
    env: list[Variables] = []
    for rank, own in enumerate(spec.env):
        found = {**inherited, **{n: v for n, v in own.items() if v is not None}}
        dealt = environment(
            kind,
            local_rank=spec.node.local + rank,
            local_world_size=spec.node.local_size(spec.nproc),
            inherited=found,
        )
        env.append({**own, **dealt})
    return replace(spec, env=tuple(env))


def deal_shares(spec: Spec, count: int, inherited: Mapping[str, str] = os.environ) -> Spec:
    """Give each rank `count` of the GPUs that `inherited` names, in their order.

    With one each, as `deal`. Raises SpecError if there are too few, or none is named.
    """
    names = {"cuda": (cuda.NAME,), "rocm": (rocm.ROCR, rocm.HIP)}
    for kind, variables in names.items():
        for name in variables:
            if name not in inherited:
                continue
            if count == 1:
                return deal(spec, kind, inherited=inherited)
            there = read_devices(name, inherited[name])
            if len(there) < spec.nproc * count:
                raise SpecError(
                    f"{spec.nproc} ranks need {count} GPUs each, but {name}={inherited[name]!r} "
                    f"names {len(there)}"
                )
            env: list[Variables] = []
            for rank, own in enumerate(spec.env):
                share = ",".join(there[rank * count : (rank + 1) * count])
                env.append({name: share, **own})
            return replace(spec, env=tuple(env))
    raise SpecError(f"{count} GPUs are asked for each rank, but this node was given none")


@dataclass(frozen=True)
class _Told:
    count: int | None = None
    endpoint: str = ""
    topology: Topology | None = None


def _of_this_machine(kind: str, spec: Spec, inherited: Mapping[str, str], root: str) -> _Told:
    """Learn what `environment` does not look at by itself."""
    known = _known(kind)
    topology = None
    if kind == "tpu" and spec.node.local_size(spec.nproc) > 1:
        from procession.devices.metadata import find_topology

        topology = find_topology(inherited)
    return _Told(
        count=_count(known.found_as, root, inherited),
        endpoint=_endpoint(spec) if known.meets else "",
        topology=topology,
    )


def _endpoint(spec: Spec) -> str:
    """Give a meeting point beside that of MASTER_PORT, for several groups the port after it."""
    node = spec.node
    several = node.size(spec.nproc) > spec.nproc
    return f"{node.address}:{node.port + 1 if several else free_port()}"


def _count(found_as: str, root: str, inherited: Mapping[str, str]) -> int | None:
    """Count the machine's devices; None for a kind that is none, or whose parts are dealt out."""
    if not found_as:
        return None
    here = [a for a in accelerators.find(root, inherited) if a.kind == found_as]
    if found_as == "Neuron" and here:
        return None  # ranks get cores, and how many a device has is not always told
    return here[0].count if here else 0


__all__ = [
    "AUTO",
    "KINDS",
    "Topology",
    "deal",
    "deal_shares",
    "deal_unseen",
    "detect",
    "environment",
]
