"""The allocation and the step of a process, read from Slurm's variables. Pure.

A batch script and the shell of `salloc` have an allocation. A batch script also has
`SLURM_PROCID=0`, so a task of `srun` is recognised by `SLURM_STEP_ID`; the steps that Slurm itself
makes, such as salloc's interactive one, have numbers from 0xfffffffa on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from procession.engines.contract import EngineError
from procession.values.base import Value, is_count

SPECIAL_STEPS = 0xFFFFFFF0
COUNTED = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")
MOST = 100_000  # nodes in a list: more than any cluster has
BRACKETS = re.compile(r"\[([^\]]*)\]")


class Allocation(Value):
    """The nodes of a job, and what it asked for.

    job: its id. nodes: their names, in Slurm's order.
    tasks_per_node: tasks on each node, None where that was not said, or is not the same for all.
    cpus_per_task, gpus_per_task: None where that was not said.
    """

    job: str
    nodes: tuple[str, ...]
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus_per_task: int | None = None

    @property
    def gpus_per_node(self) -> int | None:
        """GPUs on each node, as far as that follows from what tasks have.

        Raises EngineError where nodes have different numbers of tasks with GPUs.
        """
        if self.gpus_per_task is None:
            return None
        if self.tasks_per_node is None:
            raise EngineError(
                f"job {self.job} has {self.gpus_per_task} GPUs for each task, but its tasks are "
                "not spread evenly: allocate with --ntasks-per-node, or with --gpus-per-node"
            )
        return self.gpus_per_task * self.tasks_per_node


class Task(Value):
    """One task of a step that `srun` started.

    job, step: ids. number: the task's, from 0. count: of all tasks. nodes: of the step.
    tasks_on_nodes: how many there are on each node.
    """

    job: str
    step: str
    number: int
    count: int
    nodes: tuple[str, ...]
    tasks_on_nodes: tuple[int, ...]


def read_allocation(env: Mapping[str, str]) -> Allocation | None:
    """Give the allocation that this environment is in, None if it is in none.

    Raises EngineError for one that cannot be read.
    """
    job = env.get("SLURM_JOB_ID", "")
    parts = _count(env, "SLURM_HET_SIZE") or 1
    if job and parts > 1 and "SLURM_STEP_NODELIST" not in env:
        raise EngineError(
            f"job {job} is heterogeneous: it has {parts} components, and procession would see the "
            "nodes of the first one only; ask for all nodes alike (no `:` in sbatch or salloc), or "
            "start one step in one component: srun --het-group=0 --ntasks-per-node=1 procession run"
        )
    nodes = env.get("SLURM_JOB_NODELIST", env.get("SLURM_NODELIST", ""))
    if not job or not nodes:
        return None
    return Allocation(
        job=job,
        nodes=expand(nodes),
        tasks_per_node=_tasks_per_node(env),
        cpus_per_task=_count(env, "SLURM_CPUS_PER_TASK"),
        gpus_per_task=_count(env, "SLURM_GPUS_PER_TASK"),
    )


def read_task(env: Mapping[str, str]) -> Task | None:
    """Give the task of a step that this process is, None if `srun` did not start it.

    Raises EngineError for one that cannot be read.
    """
    step = env.get("SLURM_STEP_ID", "")
    if not is_count(step, 10) or int(step) >= SPECIAL_STEPS or "SLURM_PROCID" not in env:
        return None
    return Task(
        job=env.get("SLURM_JOB_ID", ""),
        step=step,
        number=_count(env, "SLURM_PROCID") or 0,
        count=_count(env, "SLURM_STEP_NUM_TASKS") or 1,
        nodes=expand(env.get("SLURM_STEP_NODELIST", "")),
        tasks_on_nodes=counts(env.get("SLURM_STEP_TASKS_PER_NODE", "1")),
    )


def expand(text: str) -> tuple[str, ...]:
    """Give the names in a list of nodes such as `n[1-3,07],login`. Raises EngineError."""
    found: list[str] = []
    for part in _split(text):
        names = [""]
        at = 0
        for match in BRACKETS.finditer(part):
            before, at = part[at : match.start()], match.end()
            numbers = [n for piece in match[1].split(",") for n in _range(piece, text)]
            if len(names) * len(numbers) > MOST:
                raise EngineError(f"Slurm's list of nodes cannot be read: {text!r}")
            names = [name + before + number for name in names for number in numbers]
        found += [name + part[at:] for name in names]
    if not found or not all(n and n.isprintable() and not {*n} & {*"[], "} for n in found):
        raise EngineError(f"Slurm's list of nodes cannot be read: {text!r}")
    return tuple(found)


def counts(text: str) -> tuple[int, ...]:
    """Give the numbers in a list such as `2(x3),1`. Raises EngineError."""
    found: list[int] = []
    for part in text.split(","):
        match = COUNTED.fullmatch(part)
        if match is None or int(match[2] or 1) > MOST:
            raise EngineError(f"Slurm's list of counts cannot be read: {text!r}")
        found += [int(match[1])] * int(match[2] or 1)
    return tuple(found)


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    return re.split(r",(?![^\[]*\])", text) if text else []


def _range(piece: str, text: str) -> list[str]:
    first, dash, last = piece.partition("-")
    ordered = is_count(first) and (not dash or (is_count(last) and int(first) <= int(last)))
    if not ordered or int(last or first) - int(first) >= MOST:
        raise EngineError(f"Slurm's list of nodes cannot be read: {text!r}")
    numbers = range(int(first), int(last or first) + 1)
    return [str(number).zfill(len(first)) for number in numbers]


def _tasks_per_node(env: Mapping[str, str]) -> int | None:
    # SLURM_TASKS_PER_NODE is always there, and is 1 or more where nobody asked for tasks.
    said = _count(env, "SLURM_NTASKS_PER_NODE")
    if said is not None or "SLURM_NTASKS" not in env:
        return said
    each = set(counts(env.get("SLURM_TASKS_PER_NODE", "1")))
    return each.pop() if len(each) == 1 else None


def _count(env: Mapping[str, str], name: str) -> int | None:
    """Read a count; GPUs may be written with their type, as in `a100:2`."""
    text = env.get(name, "").rpartition(":")[2]
    if not text:
        return None
    if not is_count(text):
        raise EngineError(f"{name} must be a count, not {env[name]!r}")
    return int(text)
