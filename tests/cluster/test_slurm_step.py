"""Tasks of one step of srun that meet without a shared file system."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from cluster.enginework import Agents, Ear
from conftest import until
from seams.jobs import EngineError
from seams.slurm import Door, Munge, SlurmStep, Task, join, ports
from seams.slurm import meeting as meeting_module
from support import write

TASK = Task("7", "0", 0, 3, ("n1", "n2", "n3"), (1, 1, 1))
WORDS = {"PROCESSION_AGENT": '{"at": []}', "PROCESSION_AGENT_KEY": "5ec2e7"}


def other(number, **changes):
    return TASK.__replace__(number=number, **changes)


@pytest.fixture
def door(slurm):
    made = Door(TASK, WORDS)
    yield made
    made.close()


def test_other_tasks_get_what_they_need(door):
    assert join(other(1), seconds=5) == WORDS
    assert join(other(2), seconds=5) == WORDS
    assert not door.refused


@pytest.mark.parametrize(
    "changes", [{"job": "8"}, {"step": "1"}, {"number": 0}, {"number": 3}], ids=str
)
def test_tasks_of_other_steps_get_nothing(door, monkeypatch, changes):
    changes = dict(changes)  # which other runs of this test have, too
    number = changes.pop("number", 1)
    monkeypatch.setattr(meeting_module, "ports", lambda _: [door.port])
    with pytest.raises(EngineError, match="found no driver"):
        join(other(number, **changes), seconds=0)
    until(lambda: door.refused, "the refusal")
    assert door.refused[0] == "a credential of another step, or connection"


def test_a_taken_port_is_passed_over(slurm):
    """Whoever has it, and says nothing sensible, does not keep the tasks from meeting."""
    taken = socket.create_server(("", ports(TASK)[0]))

    def talk():
        sock, _ = taken.accept()
        with sock:
            sock.sendall(b"220 mail\r\n")
            sock.recv(4096)
            sock.sendall(b"500 what?\r\n")

    talking = threading.Thread(target=talk)
    talking.start()
    made = Door(TASK, WORDS)
    try:
        assert made.port == ports(TASK)[1]
        assert join(other(1), seconds=5) == WORDS
    finally:
        made.close()
        talking.join()
        taken.close()


def test_a_credential_serves_once(door):
    """What was heard on the wire is of no use on another connection."""
    munge = Munge()
    sealed = munge.seal({"kind": "ask", "job": "7", "step": "0", "task": 1, "nonce": "x",
                         "driver": "0" * 32})  # fmt: skip
    for count in (1, 2):
        with socket.create_connection(("127.0.0.1", door.port)) as sock:
            sock.recv(64)
            sock.sendall(sealed + b"\n")
            assert sock.recv(4096) == b""
        until(lambda n=count: len(door.refused) == n, "the refusal")
    assert door.refused[0] == "a credential of another step, or connection"
    assert "Replayed" in door.refused[1]


def test_a_credential_of_another_user_is_refused(slurm):
    if os.getuid():
        pytest.skip("only root can act as another user")
    munge = Munge()
    line = ["munge", *munge._options]
    for option, why in (["--restrict-uid=0"], "of another user"), (["--restrict-uid=7"], "nauth"):
        made = subprocess.run(
            [*line, *option], input=b"{}", stdout=subprocess.PIPE, user=65534, check=True
        )
        with pytest.raises(EngineError, match=why):
            munge.open(made.stdout.strip())


def test_who_says_nothing_is_in_nobodys_way(door):
    with socket.create_connection(("127.0.0.1", door.port)):
        assert join(other(1), seconds=5) == WORDS


def test_a_step_of_srun(slurm, tmp_path):
    """Task 0 drives; the others find it by nothing but their step."""
    script = write(
        tmp_path / "step.py",
        """
        import json, os, sys
        from procession.engines.slurm.allocation import read_task
        from procession.engines.slurm.meeting import Door, join
        task = read_task(os.environ)
        if task.number:
            print(task.number, json.dumps(join(task, seconds=20)), flush=True)
            open(sys.argv[1] + f"/{task.number}", "w").close()
        else:
            door = Door(task, {"PROCESSION_AGENT_KEY": "5ec2e7"})
            while len(os.listdir(sys.argv[1])) < task.count - 1:
                pass
            door.close()
            print(0, door.refused, flush=True)
        """,
    )
    (tmp_path / "done").mkdir()
    line = ["srun", "-N3", "--ntasks-per-node=1", sys.executable, script, tmp_path / "done"]
    said = slurm.run(*line).stdout
    assert sorted(said.splitlines()) == [
        "0 []",
        *(f"{n} {json.dumps({'PROCESSION_AGENT_KEY': '5ec2e7'})}" for n in (1, 2)),
    ]


def test_task_0_has_an_agent_of_its_own(slurm, tmp_path):
    agents, ear = Agents(tmp_path), Ear()
    engine = SlurmStep(Task("7", "0", 0, 1, ("n1",), (1,)))
    engine.start(agents.command, ear)
    try:
        first = agents.all_up(1)[0]["pid"]
        engine.kill()
        until(ear.gone, "the news")
        os.remove(agents.path / f"0.{first}")
        engine.replace(0)
        assert agents.all_up(1)[0]["pid"] != first
        with pytest.raises(EngineError, match="srun does not start task 1 again"):
            engine.replace(1)
    finally:
        agents.end()
        engine.close()


def test_several_tasks_on_a_node_are_refused():
    engine = SlurmStep(Task("7", "0", 0, 4, ("n1", "n2"), (2, 2)))
    with pytest.raises(EngineError, match="srun started 2 tasks on a node"):
        engine.check()
