"""What the driver sends to each node when an attempt begins."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from procession.driver.jobstate import JobState
from procession.driver.noderecord import NodeRecord
from procession.engines.interfaces import interface_of
from procession.values.environment import Node


def orders(
    state: JobState, nodes: Sequence[NodeRecord], interfaces: Sequence[str], *, last: bool
) -> Iterator[tuple[int, Any, bytes]]:
    """Give the slot, the fields and the blob of each message.

    interfaces: of each node, see `interfaces`. last: whether no other attempt follows, whatever
    happens; see `nodeprocess`.
    """
    work = state.work
    heirs = state.will(nodes)
    will = heirs.plain() if heirs is not None else None
    blobs: dict[int, bytes] = {}
    specs = state.reception is None  # else they know what they run
    for node, record in enumerate(nodes):
        spec = work.of(node)
        if specs and id(spec) not in blobs:
            blobs[id(spec)] = pickle.dumps(spec)
        place = Node(
            rank=node,
            count=work.nodes,
            address=state.address[0],
            port=state.address[1],
            role=spec.node.role,
            run_id=spec.node.run_id or state.run_id,
            job=state.run_id,
            attempt=state.life.attempt,
            restarts=work.restart.max,
            regrouped=state.life.regrouped,
            number=work.first(node) if work.sizes else None,
            world=sum(work.sizes),
        )
        fields = {
            "attempt": state.life.attempt,
            "node": vars(place),
            "place": os.path.join(state.place, f"node_{node}") if state.place else "",
            "devices": work.devices,
            "gpus": work.gpus,
            "last": last,
            "interface": interfaces[node],
        }
        if will is not None:
            fields["will"] = will
        yield record.slot, fields, blobs.get(id(spec), b"")


def interfaces_of(nodes: Sequence[NodeRecord]) -> list[str]:
    """Give the interface of each node process's machine; "" for all where they are on one machine.

    A node process on the driver's machine may have come by the loopback interface: its interface is
    the one by which the others have come.
    """
    if len({node.peer for node in nodes}) < 2:
        return [""] * len(nodes)
    here = next(interface_of(node.reached) for node in nodes if node.peer)
    return [node.interface if node.peer else here for node in nodes]
