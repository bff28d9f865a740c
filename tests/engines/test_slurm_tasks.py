"""How Slurm's engine hears of tasks, and how task 0 of srun treats the others; without Slurm."""

import base64
import json
import subprocess
import threading

import pytest

from seams.jobs import AgentCommand, SlotGone
from seams.slurm import BECOME, DISMISSED, Allocation, Slurm, SlurmStep, Step, Task, dismiss, join
from seams.slurm import meeting as slurm_meeting
from seams.slurm import step as slurm_step
from support import PYTHON, until

TASK = Task("7", "2", 0, 3, ("127.0.0.1", "n2", "n3"), (1, 1, 1))


class Munge:
    """Believes everybody."""

    def seal(self, said):
        return base64.b64encode(json.dumps(said).encode())

    def open(self, credential):
        return json.loads(base64.b64decode(credential))


@pytest.fixture(autouse=True)
def no_slurm(monkeypatch):
    monkeypatch.setattr(slurm_meeting, "Munge", Munge)
    monkeypatch.setattr(slurm_step, "Munge", Munge)
    monkeypatch.setattr(slurm_meeting, "address_of", lambda node: node)


def test_tasks_are_let_go_where_there_is_no_job():
    told = {}

    def ask(number):
        told[number] = join(TASK.__replace__(number=number), seconds=10)

    threads = [threading.Thread(target=ask, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    dismiss(TASK)
    for thread in threads:
        thread.join()
    assert told == {number: {DISMISSED: "1"} for number in (1, 2)}


def test_a_task_that_does_not_come_is_told_of(monkeypatch):
    """As where procession is not installed on its node: srun tells nobody that it has ended."""
    monkeypatch.setattr(slurm_step, "COME_WITHIN", 0.3)
    told = []
    engine = SlurmStep(TASK)
    engine.start(AgentCommand((PYTHON, "-c", "import signal; signal.pause()"), {}), told.append)
    try:
        join(TASK.__replace__(number=1), seconds=10)
        until(lambda: told, "the news")
    finally:
        engine.kill()
        engine.close()
    assert told[0].slot == 2
    assert told[0].why.startswith("task 2 on n3 has not asked for its part within 0.3 s")


def test_a_program_that_a_node_does_not_have_is_named():
    def become(*argv):
        env = {"SLURMD_NODENAME": "n1", "PATH": "/usr/bin"}
        line = ["sh", "-c", BECOME, "procession-agent", *argv]
        return subprocess.run(line, capture_output=True, text=True, env=env, check=False)

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
    step = Step("x", ["true"], {"PATH": "/usr/bin"}, (0, 1, 2))
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
        engine._hear(step, line)

    def gone():
        return sorted((each.slot, each.why) for each in told if isinstance(each, SlotGone))

    until(lambda: len(gone()) == 3, "the news")
    assert gone() == [
        (0, "node n1 has no /x/python: the Python of this command must be at the same place on "
            "all nodes"),
        (1, "the agent on n2: exited with exit code 1: ModuleNotFoundError: No module named "
            "'procession'"),
        (2, "the agent on n3: killed"),
    ]  # fmt: skip
    assert ended.wait(10)
    assert step.join(10)
