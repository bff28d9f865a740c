"""How Slurm's engine hears of tasks; without Slurm."""

import threading

import pytest

from seams.jobs import SlotGone
from seams.slurm import BECOME, Allocation, Slurm, Step
from support import run_program, until


def test_a_program_that_a_node_does_not_have_is_named():
    def become(*argv):
        env = {"SLURMD_NODENAME": "n1", "PATH": "/usr/bin"}
        return run_program("sh", "-c", BECOME, "procession-agent", *argv, env=env)

    done = become("/nowhere/python", "agent")
    assert done.stdout.splitlines()[1] == "procession-agent-missing /nowhere/python"
    assert done.returncode == 127
    assert become("echo", "here").stdout.splitlines() == ["procession-agent-started n1", "here"]


@pytest.mark.parametrize("late", [False, True])
def test_why_a_task_ended_is_told_with_its_last_words(late):
    """Also where srun tells the end before it has shown these words."""
    told = []
    engine = Slurm(Allocation("7", ("n1", "n2", "n3")))
    engine._tell = told.append
    step = Step(["true"], {"PATH": "/usr/bin"}, (0, 1, 2))
    ended = threading.Event()
    step.watch(lambda *_: None, ended.set)
    lines = [
        "0: procession-agent-started n1",
        "0: procession-agent-missing /x/python",
        "1: procession-agent-started n2",
        "1: ModuleNotFoundError: No module named 'procession'",
        "2: hello",
        "srun: error: n1: task 0: Exited with exit code 127",
        "srun: error: n2: task 1: Exited with exit code 1",
        "srun: error: n3: task 2: Killed",
    ]
    for line in [*lines[5:], *lines[:5]] if late else lines:
        engine._pass_line_on(step, line)

    def gone():
        return sorted((each.slot, each.why) for each in told if isinstance(each, SlotGone))

    until(lambda: len(gone()) == 3, "the news")
    assert gone() == [
        (0, "node n1 has no /x/python: the Python of this command must be at the same place on "
            "all nodes [P211]"),
        (1, "the node process on n2: exited with exit code 1: ModuleNotFoundError: No module named "
            "'procession'"),
        (2, "the node process on n3: killed"),
    ]  # fmt: skip
    assert ended.wait(10)
    assert step.join(10)
