"""Under `srun procession run ...`: task 0 is the driver, and the other tasks become its agents."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Set
from typing import NoReturn

from procession.engines.contract import (
    AGENT,
    SLOT,
    AgentCommand,
    EngineError,
    EngineEvent,
    SlotGone,
)
from procession.engines.slurm.allocation import Task
from procession.engines.slurm.meeting import Door, join
from procession.engines.slurm.munge import Munge
from procession.forkserver.boot import own_python

COME_WITHIN = 60.0  # seconds for all tasks to begin, when task 0 has
DISMISSED = "PROCESSION_DISMISSED"  # what task 0 sends the others where there is no job


class SlurmStep:
    """The engine of the driver that is task 0 of a step, with one task on each node."""

    name = "slurm"

    def __init__(self, task: Task) -> None:
        self._task = task
        self._closing = threading.Event()
        self._waiter: threading.Thread | None = None
        self._door: Door | None = None
        self._ends = 0.0  # when tasks that have not come are given up
        self._own: subprocess.Popen[bytes] | None = None
        self._watcher: threading.Thread | None = None
        self._agent = AgentCommand((), {})
        self._tell: Callable[[EngineEvent], None] | None = None

    @property
    def slots(self) -> int:
        """How many tasks, and so nodes, the step has."""
        return self._task.count

    def check(self) -> None:
        """Look whether there is one task on each node, and MUNGE. Raises EngineError."""
        _check_places(self._task)
        if self._task.count > 1:
            Munge()

    def start(self, agent: AgentCommand, tell: Callable[[EngineEvent], None]) -> None:
        """Let the other tasks in, and start the agent of this node. Raises EngineError."""
        self.check()
        self._agent, self._tell = agent, tell
        if self._task.count > 1:
            atexit.unregister(dismiss)
            door = self._door = Door(self._task, agent.env)
            self._ends = time.monotonic() + COME_WITHIN
            self._waiter = threading.Thread(target=self._wait_for_all, args=(door,), daemon=True)
            self._waiter.start()
        self._start_own()

    def replace(self, slot: int) -> None:
        """Start the agent of this node again. Raises EngineError for any other one."""
        if slot:
            raise EngineError(
                f"srun does not start task {slot} again: give more nodes than --nnodes, or run "
                "this in an allocation (sbatch, salloc), without srun before it"
            )
        self._wait_own(5.0)
        self._start_own()

    def kill(self) -> None:
        """Kill the agent of this node; the others end when their driver is silent."""
        if self._own is not None and self._own.poll() is None:
            self._own.kill()

    def close(self) -> None:
        """Accept no more tasks, and end the agent of this node.

        Tasks that have not come yet are told at the exit of this process that the job is over.
        """
        self._closing.set()
        if self._waiter is not None:
            self._waiter.join()
        if self._door is not None:
            self._door.close()
            missing = _others(self._task) - self._door.came
            left = self._ends - time.monotonic()
            if missing and left > 0:
                atexit.register(dismiss, self._task, left, missing)
        self._wait_own(5.0)
        self._tell = None

    def _wait_for_all(self, door: Door) -> None:
        """Report tasks that do not come: here nobody learns from srun that one has ended."""
        while not self._closing.wait(0.1):
            missing = _others(self._task) - door.came
            if not missing:
                return
            if time.monotonic() > self._ends:
                for number in sorted(missing):
                    self._say_gone(
                        number,
                        f"task {number} on {self._task.nodes[number]} has not asked for its part "
                        f"within {COME_WITHIN:g} s: is procession installed there?",
                    )
                return

    def _say_gone(self, slot: int, why: str) -> None:
        if self._tell is not None:
            self._tell(SlotGone(slot, why))

    def _start_own(self) -> None:
        try:
            own = self._own = subprocess.Popen(
                self._agent.argv,
                env={**os.environ, **self._agent.env, SLOT: "0"},
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as e:
            raise EngineError(f"the agent of this node cannot be started: {e}") from None

        def watch() -> None:
            code = own.wait()
            self._say_gone(0, f"the agent of this node ended with {code}")

        self._watcher = threading.Thread(target=watch, name="procession-agent", daemon=True)
        self._watcher.start()

    def _wait_own(self, seconds: float) -> None:
        if self._watcher is not None:
            self._watcher.join(seconds)
            self.kill()
            self._watcher.join()


def _others(task: Task) -> set[int]:
    return set(range(1, task.count))


def _check_places(task: Task) -> None:
    most = max(task.tasks_on_nodes)
    if most > 1:
        raise EngineError(
            f"srun started {most} tasks on a node, but one is enough for all ranks there: "
            "srun --ntasks-per-node=1 procession run -n RANKS_PER_NODE ..."
        )


def dismiss_at_exit(task: Task) -> None:
    """Have the other tasks dismissed if this one, task 0, exits without having made a job."""
    atexit.register(dismiss, task)


def dismiss(task: Task, seconds: float = COME_WITHIN, those: Set[int] | None = None) -> None:
    """Tell other tasks that there is no job; returns when they know, or time is over.

    those: their numbers; None: all.
    """
    wanted = _others(task) if those is None else those
    try:
        door = Door(task, {DISMISSED: "1"})
    except EngineError:
        return  # they end by themselves when nobody answers
    ends = time.monotonic() + seconds
    while wanted - door.came and time.monotonic() < ends:
        time.sleep(0.02)
    door.close()


def become_agent(task: Task) -> NoReturn:
    """Become the agent of this node, once task 0 has sent what it needs. Raises EngineError."""
    _check_places(task)
    sent = join(task)
    if DISMISSED in sent:
        sys.exit(0)  # task 0 has said why, and its exit code is srun's
    env = {**os.environ, **sent, SLOT: str(task.number)}
    os.execve(sys.executable, own_python(AGENT), env)
