"""Devices: what the environment of each rank must say so that it uses its own accelerator.

The kinds are pure: from what a rank inherits, and its number, to its variables. `deal` looks at
this machine and does it for all ranks of a group; `procession.run(..., devices="cuda")` and
`procession run --devices` are that.

May import system and values. Start reading at `deal`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from procession.devices import kinds
from procession.devices.seat import Seat, Variables, read_devices
from procession.system import accelerators
from procession.system.ports import free_port
from procession.values.errors import SpecError
from procession.values.spec import Spec

AUTO = "auto"
KINDS = tuple(kinds.KINDS)


def known_kind(kind: object) -> kinds.DeviceKind:
    """Give a kind of device by its name. Raises SpecError."""
    if not isinstance(kind, str) or kind not in kinds.KINDS:
        raise SpecError(f"devices must be one of {', '.join((AUTO, *KINDS))}, not {kind!r}")
    return kinds.KINDS[kind]


def detect(root: str = "/") -> str | None:
    """Give the kind of this machine's accelerators, None if it has none.

    Raises SpecError if it has more than one kind. root: where /dev and /sys are.
    """
    found = [a for a in accelerators.find(root) if a.count]
    if len(found) > 1:
        raise SpecError(
            f"this machine has devices of {' and '.join(a.kind for a in found)}: "
            "say which kind the ranks use"
        )
    names = [name for name, kind in kinds.KINDS.items() for a in found if a.kind == kind.found_as]
    return names[0] if names else None


def deal(
    spec: Spec, kind: str | None, *, inherited: Mapping[str, str] | None = None, root: str = "/"
) -> Spec:
    """Give each rank of a group its device: `spec` with the variables added to its `env`.

    kind: one of `KINDS`; "auto": what `detect` finds, and nothing where there is nothing; None:
        nothing.
    inherited: the launcher's environment, by default this process's.

    What `spec.env` says for all ranks alike counts as inherited: devices that it names are dealt
    out. What it says for single ranks is kept, and a rank whose devices it names gets no others.
    Raises SpecError.
    """
    base = os.environ if inherited is None else inherited
    if kind == AUTO:
        kind = detect(root)
    if kind is None:
        return spec
    common = {
        name: value
        for name, value in spec.env[0].items()
        if all(name in e and e[name] == value for e in spec.env)
    }
    merged = {**base, **common}
    ours = {name: value for name, value in merged.items() if value is not None}
    found = _of_this_machine(kind, spec, ours, root)
    lists = known_kind(kind).lists
    env: list[Variables] = []
    for rank in range(spec.nproc):
        own = {n: v for n, v in spec.env[rank].items() if n not in common}
        by_hand = lists if any(n in own for n in lists) else ()
        known = {**found, "count": None} if by_hand else found
        inherited = {n: v for n, v in ours.items() if n not in by_hand}
        dealt = known_kind(kind).environment(_seat(spec, rank, inherited, known))
        dealt = {n: v for n, v in dealt.items() if n not in by_hand}
        env.append({**common, **dealt, **own})
    return replace(spec, env=tuple(env))


def deal_virtual(spec: Spec, inherited: Mapping[str, str] = os.environ) -> Spec:
    """Give each rank of a group its GPU as torchrun does, without a look at this machine.

    What `spec.env` names counts as inherited. Raises SpecError if too few devices are named.
    """
    env: list[Variables] = []
    for rank, own in enumerate(spec.env):
        found = {**inherited, **{n: v for n, v in own.items() if v is not None}}
        env.append({**own, **kinds.virtual(_seat(spec, rank, found, {}))})
    return replace(spec, env=tuple(env))


def _seat(spec: Spec, rank: int, inherited: Mapping[str, str], known: Mapping[str, Any]) -> Seat:
    """Give the seat of a rank of a group. known: see `_of_this_machine`."""
    node = spec.node
    return Seat(
        local_rank=node.local + rank,
        local_world_size=node.local_size(spec.nproc),
        rank=node.first(spec.nproc) + rank,
        world_size=node.size(spec.nproc),
        inherited=inherited,
        **known,
    )


def deal_shares(spec: Spec, count: int) -> Spec:
    """Give each rank `count` of the GPUs that the environment names, in their order.

    With one each, as `deal`. Raises SpecError if there are too few, or none is named.
    """
    named = [name for name in (kinds.CUDA, kinds.ROCR, kinds.HIP) if name in os.environ]
    if not named:
        raise SpecError(f"{count} GPUs are asked for each rank, but this node was given none")
    name = named[0]
    if count == 1:
        return deal(spec, "cuda" if name == kinds.CUDA else "rocm")
    there = read_devices(name, os.environ[name])
    if len(there) < spec.nproc * count:
        raise SpecError(
            f"{spec.nproc} ranks need {count} GPUs each, but {name}={os.environ[name]!r} "
            f"names {len(there)}"
        )
    shares = [",".join(there[n * count : (n + 1) * count]) for n in range(spec.nproc)]
    env = [{name: share, **own} for share, own in zip(shares, spec.env, strict=True)]
    return replace(spec, env=tuple(env))


def _of_this_machine(
    kind: str, spec: Spec, inherited: Mapping[str, str], root: str
) -> dict[str, Any]:
    """Find out the last three fields of a `Seat`."""
    known = known_kind(kind)
    topology = None
    if kind == "tpu" and spec.node.local_size(spec.nproc) > 1:
        from procession.devices.topology import find_topology

        topology = find_topology(inherited)
    return {
        "count": _count(known.found_as, root),
        "endpoint": _endpoint(spec) if known.meets else "",
        "topology": topology,
    }


def _endpoint(spec: Spec) -> str:
    """Give an address at which ranks meet besides MASTER_PORT: where there are several groups, the
    port after that; else a free one.
    """
    node = spec.node
    several = node.size(spec.nproc) > spec.nproc
    host = f"[{node.address}]" if ":" in node.address else node.address
    return f"{host}:{node.port + 1 if several else free_port()}"


def _count(found_as: str, root: str) -> int | None:
    """Count the machine's devices; None where it is not known, or ranks get parts of devices."""
    if not found_as:
        return None
    here = [a for a in accelerators.find(root) if a.kind == found_as]
    if found_as == "Neuron" and here:
        return None  # ranks get cores, and how many a device has is not always known
    return here[0].count if here else 0
