"""Slurm: one step of `srun` in an allocation, with a node process on each of its nodes.

Theory of operation. All node processes are tasks of one step, so that they start together and Slurm
knows them; a node process that replaces another one is a step of its own.

The step must do nothing by itself: the end of one task does not end others, and the loss of a node
does not end the step. Slurm's news of tasks come late (an exit when nobody holds the task's output
any more, a lost node after SlurmdTimeout, 300 s by default): the links to node processes are
quicker, and count.

`srun` has a session of its own, so that Ctrl-C reaches the driver alone. A SIGKILL to srun makes
Slurm kill all tasks of the step at once: a process that srun has forked sees to that. It is the
last resort, and srun is left alone when the driver is killed: node processes notice that their
driver is gone and end in order, and srun ends with the last one. A job that Slurm ends at the loss
of a node (one without `--no-kill`) cannot be helped.

When a job is cancelled, preempted or at its time limit, Slurm sends SIGCONT and SIGTERM, at the
time limit twice: with proctrack/linuxproc to every process below the job's, with proctrack/pgid to
those in the tasks' process groups, with proctrack/cgroup to the tasks alone. So the node processes,
and a driver in a batch script, get these signals; the parents of ranks ignore them. KillWait later
(30 s by default) everything gets SIGKILL.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping

from procession.engines.contract import (
    SLOT,
    Chosen,
    EngineError,
    EngineEvent,
    NodeCommand,
    Said,
    SlotGone,
)
from procession.engines.helper import end_all
from procession.engines.slurm.allocation import Allocation, read_allocation, read_task
from procession.engines.slurm.commands import (
    MISSING,
    NOISE,
    STARTED,
    read_ends,
    read_line,
    read_lost,
    step_command,
    step_environment,
)
from procession.engines.slurm.processes import NO_SLURM, Step, ask
from procession.prepare.work import Share
from procession.values.errors import SpecError

PROGRAMS = ("srun", "squeue", "sinfo")
END_WITHIN = 5.0  # seconds for srun to end after its tasks
WORDS_WITHIN = 0.5  # seconds for a task's last lines, which may follow the news of its exit
LOST_WITHIN = 2.0  # the same, where some tasks are not known to have ended
NO_ALLOCATION = (
    "not in an allocation of Slurm: run this in a script for sbatch, or in the shell of "
    "`salloc --nodes=2 --no-kill`"
)


class Slurm:
    """The engine of an allocation.

    allocation: by default that of this process's environment. Raises EngineError outside an
    allocation.
    """

    name = "slurm"

    def __init__(
        self, allocation: Allocation | None = None, *, env: Mapping[str, str] = os.environ
    ) -> None:
        found = allocation or read_allocation(env)
        if found is None:
            raise EngineError(NO_ALLOCATION if shutil.which("srun") else f"srun {NO_SLURM}")
        self.allocation = found
        self._env = env
        self._steps: list[Step] = []
        self._nodes = dict(enumerate(found.nodes))  # of slots, as their tasks print them
        self._tell: Callable[[EngineEvent], None] = lambda _: None
        self._command = NodeCommand((), {})

    @property
    def slots(self) -> int:
        """How many nodes the allocation has."""
        return len(self.allocation.nodes)

    def check(self) -> None:
        """Look for Slurm's commands, and whether its GPUs can be given. Raises EngineError."""
        for program in PROGRAMS:
            if shutil.which(program) is None:
                raise EngineError(f"{program} {NO_SLURM}")
        _ = self.allocation.gpus_per_node

    def start(self, command: NodeCommand, tell: Callable[[EngineEvent], None]) -> None:
        """Have a node process started on each node. Raises EngineError."""
        self.check()
        self._command, self._tell = command, tell
        self._launch(self.allocation.nodes, None)

    def replace(self, slot: int) -> None:
        """Have a node process started on the node that has lost its own.

        Raises EngineError if Slurm has lost the node.
        """
        node = self._nodes[slot]
        line = ("sinfo", "--noheader", f"--nodes={node}", "--format=%T")
        state = ask(line, self._env).split("\n")[0]
        if not state or state.endswith("*") or state.startswith(("down", "fail", "unknown")):
            raise EngineError(
                f"node {node} is {state or 'unknown'}: there is no node for another node process; "
                "allocate spare ones (more nodes than --nnodes)"
            )
        self._launch((node,), slot)

    def kill(self) -> None:
        """Have all node processes ended by SIGKILL, of steps that do not end by themselves.

        A step that is ending is left alone: to kill it then makes slurmstepd hang now and then, and
        Slurm takes the node out of use.
        """
        end_all([step for step in self._steps if step.started], LOST_WITHIN)
        end_all(self._steps, 0.0)  # one without tasks does not end by itself

    def close(self) -> None:
        """Wait a little for srun, and end what is left."""
        if not all(step.join(END_WITHIN) for step in self._steps):
            self.kill()
        for step in self._steps:
            step.join(None)
        self._steps.clear()

    def _launch(self, nodes: tuple[str, ...], slot: int | None) -> None:
        """Start a step; slot: of the one node, None for all of them."""
        argv = step_command(
            self._command.argv,
            job=self.allocation.job,
            nodes=nodes,
            gpus=self.allocation.gpus_per_node,
        )
        more = dict(self._command.env)
        if slot is not None:
            more[SLOT] = str(slot)
        slots = tuple(range(len(nodes))) if slot is None else (slot,)
        step = Step(argv, step_environment(self._env, more), slots)
        self._steps = [*[s for s in self._steps if s.running], step]
        step.watch(lambda line: self._pass_line_on(step, line), lambda: self._hear_end(step))

    def _pass_line_on(self, step: Step, line: str) -> None:
        """Pass on a line of srun, or of a task."""
        task, text = read_line(line)
        if task is None:
            if line in NOISE:
                return
            step.last.append(line)
            self._tell(Said(line))
            tasks, why = read_ends(line)
            why = why or "Slurm has lost the node"
            lost = read_lost(line)
            slots = [step.slots[t] for t in tasks if t < len(step.slots)]
            # Slurm may be wrong about a node on which a node process has begun.
            slots += [s for s in step.slots if self._nodes[s] == lost and s not in step.started]
            if why.startswith("exited"):  # its last lines may come after this
                step.exits |= dict.fromkeys(slots, why)
                _later(WORDS_WITHIN, lambda: self._lose_those_that_exited(step))
                return
            for slot in slots:
                self._lose(step, slot, f"the node process on {self._nodes[slot]}: {why}")
        elif task < len(step.slots):
            slot = step.slots[task]
            word, _, node = text.partition(" ")
            if word == STARTED:
                step.started.add(slot)
                self._nodes[slot] = node
            elif word == MISSING:
                self._lose(
                    step,
                    slot,
                    f"node {self._nodes[slot]} has no {node}: the Python of this command must be "
                    "at the same place on all nodes [P211]",
                )
            else:
                step.words[slot] = text
                self._tell(Said(f"{self._nodes[slot]}: {text}"))

    def _lose(self, step: Step, slot: int, why: str) -> None:
        """Report, once, that a slot has no node process."""
        if slot not in step.gone:
            step.gone.add(slot)
            self._tell(SlotGone(slot, why))

    def _lose_those_that_exited(self, step: Step) -> None:
        """Report which tasks have exited, with the last line of each."""
        for slot, why in list(step.exits.items()):
            words = f": {step.words[slot]}" if slot in step.words else ""
            self._lose(step, slot, f"the node process on {self._nodes[slot]}: {why}{words}")

    def _hear_end(self, step: Step) -> None:
        """Report that a step has ended, and whether any step is left."""
        self._lose_those_that_exited(step)
        words = "; ".join(line.removeprefix("srun: ").removeprefix("error: ") for line in step.last)
        why = f"srun ended ({step.exit}){': ' if words else ''}{words}"
        for slot in step.slots:
            if slot not in step.gone:
                self._tell(SlotGone(slot, why))
        if any(s.running for s in self._steps if s is not step):
            return
        state = self._job_state()
        if state != "RUNNING":
            job = f"job {self.allocation.job} is {state.lower().replace('_', ' ')}"
            self._tell(SlotGone(None, f"Slurm's {job}: {why}"))
        elif not step.started:
            self._tell(SlotGone(None, f"Slurm started no node process: {why}"))

    def _job_state(self) -> str:
        line = ("squeue", "--noheader", f"--job={self.allocation.job}", "--format=%T")
        try:
            return ask(line, self._env).strip() or "gone"
        except EngineError:
            return "gone"


def _later(seconds: float, call: Callable[[], object]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


def choose(share: Share, nodes: int | None, spares: int, _: Mapping[str, str]) -> Chosen:
    """Make the engine of `--engine slurm`. Raises SpecError, and EngineError without Slurm."""
    if spares:
        raise SpecError(
            "spare nodes of Slurm are those that an allocation has beyond --nnodes: ask for "
            "more of them"
        )
    spec = share.spec
    task = read_task(os.environ)
    if task is not None and task.count > 1:
        raise SpecError(
            f"this program is one of {task.count} tasks of srun, and each would drive a job over "
            "the whole allocation: start it once, without srun before it; or let them find each "
            'other: procession run without --engine, procession.run(..., rendezvous="HOST:PORT")'
        )
    engine = Slurm()
    found = engine.allocation
    if nodes is not None and nodes > engine.slots:
        raise SpecError(
            f"{nodes} nodes are asked for, but the allocation (job {found.job}) has {engine.slots}"
        )
    if found.cpus_per_task and not spec.placement.chooses_cpus:
        placement = spec.placement.__replace__(cpus_per_rank=found.cpus_per_task)
        share = share.__replace__(spec=spec.__replace__(placement=placement))
    if found.gpus_per_task and not share.devices:
        share = share.__replace__(gpus=found.gpus_per_task)
    return Chosen(engine, share, nodes or engine.slots)
