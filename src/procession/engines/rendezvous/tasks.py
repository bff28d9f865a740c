"""The terms of launchers that are tasks of one step of `srun`: nobody has said where they meet.

All that the tasks know in common are the numbers of job and step, and a shared file system is not
assumed. So the first task listens on one of a few ports that are computed from those numbers, and
the others try each of them in turn. Who listens on one of these ports and is not of this job has no
key, and is passed over.

Rejected: a file in the home directory (not shared everywhere, and seen late), PMI (needs libraries
and an option of srun), another step (srun's tasks hold the CPUs already).
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

from procession.engines.contract import EngineError
from procession.engines.rendezvous.terms import Terms
from procession.engines.slurm.allocation import Task
from procession.engines.slurm.processes import ask
from procession.system.ports import FIRST, LAST
from procession.values.errors import SpecError

PORTS = 8  # that one step may use
COME_WITHIN = 120.0  # seconds: tasks of one step may start long after each other
ANSWER_WITHIN = 10.0  # seconds, for one peer: the next port may be the right one


def terms_of_task(task: Task, least: int, most: int, **fields: Any) -> Terms:
    """Give the terms for a task. least, most: how many machines. fields: further ones of `Terms`.

    Raises SpecError where there is more than one task on a node, or too few tasks, or `fields` say
    who is the host: the others look for it on the first task's node.
    """
    each = max(task.tasks_on_nodes)
    if each > 1:
        raise SpecError(
            f"srun started {each} tasks on a node, but one is enough for all ranks there: "
            "srun --ntasks-per-node=1 procession run -n RANKS_PER_NODE ..."
        )
    if most > task.count:
        raise SpecError(f"{most} nodes are asked for, but srun has started {task.count} tasks")
    if fields.get("is_host") is not None:
        raise SpecError(
            "is_host has no meaning here: the first of srun's tasks hosts the rendezvous; leave it "
            "out"
        )
    first, *further = ports(task)
    known: dict[str, Any] = {"join": COME_WITHIN, "read": ANSWER_WITHIN, **fields}
    known["is_host"] = task.number == 0
    return Terms(
        task.nodes[0],
        first,
        f"slurm_{task.job}.{task.step}",
        least,
        most,
        together=task.nodes,
        order=task.number,
        starter="srun",
        further=tuple(further),
        **known,
    )


def with_address(terms: Terms) -> Terms:
    """Give the terms with the address of the first task's node, for terms that have its name."""
    if not terms.host or terms.host not in terms.together:
        return terms
    return terms.__replace__(host=address_of(terms.host))


def ports(task: Task) -> list[int]:
    """Give the ports at which the tasks of a step may meet."""
    found: list[int] = []
    for number in range(PORTS):
        seed = f"procession {task.job}.{task.step} {number}".encode()
        drawn = int.from_bytes(hashlib.sha256(seed).digest()[:8], "big")
        found.append(FIRST + drawn % (LAST - FIRST))
    return list(dict.fromkeys(found))


def address_of(node: str) -> str:
    """Give the address by which Slurm reaches a node; its name, where Slurm does not say."""
    try:
        said = ask(("scontrol", "show", "node", "--oneliner", node), os.environ)
    except EngineError:
        return node
    match = re.search(r"\bNodeAddr=(\S+)", said)
    return match[1] if match else node
