"""Under `srun procession run ...`: task 0 is the driver, and the other tasks become its agents."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable

from procession.engines.contract import SLOT, AgentCommand, EngineError, EngineEvent, SlotGone
from procession.engines.munge import Munge
from procession.engines.slurm_allocation import Task
from procession.engines.slurm_meeting import Door, join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class SlurmStep:
    """The engine of the driver that is task 0 of a step, with one task on each node."""

    name = "slurm"

    def __init__(self, task: Task) -> None:
        self._task = task
        self._door: Door | None = None
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
            self._door = Door(self._task, agent.env)
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
        """End the agent of this node; the others end when their driver is silent."""
        if self._own is not None and self._own.poll() is None:
            self._own.kill()

    def close(self) -> None:
        """Let nobody in any more, and end what is left here."""
        if self._door is not None:
            self._door.close()
        self._wait_own(5.0)
        self._tell = None

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
            if self._tell is not None:
                self._tell(SlotGone(0, f"the agent of this node ended with {code}"))

        self._watcher = threading.Thread(target=watch, name="procession-agent", daemon=True)
        self._watcher.start()

    def _wait_own(self, seconds: float) -> None:
        if self._watcher is not None:
            self._watcher.join(seconds)
            self.kill()
            self._watcher.join()


def _check_places(task: Task) -> None:
    most = max(task.tasks_on_nodes)
    if most > 1:
        raise EngineError(
            f"srun started {most} tasks on a node, but one is enough for all ranks there: "
            "srun --ntasks-per-node=1 procession run -n RANKS_PER_NODE ..."
        )


def become_agent(task: Task) -> NoReturn:
    """Be the agent of a task that is not task 0, once that has said how. Raises EngineError."""
    _check_places(task)
    env = {**os.environ, **join(task), SLOT: str(task.number)}
    os.execve(sys.executable, [sys.executable, "-m", "procession.engines.agent"], env)


__all__ = ["SlurmStep", "become_agent"]
