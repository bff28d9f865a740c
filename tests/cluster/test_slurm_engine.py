"""Slurm's engine on a real cluster, with stand-ins for node processes."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from cluster.enginework import Ear, NodeProcesses, allocated, started
from conftest import alive, until
from seams.jobs import EngineError, NodeCommand
from seams.slurm import Allocation, Slurm
from support import PYTHON, Launcher, gone, write

TESTS = Path(__file__).parent.parent


@pytest.fixture
def processes(tmp_path):
    return NodeProcesses(tmp_path)


def test_one_node_process_on_each_node(slurm, processes):
    with allocated(slurm, "-N3", "--no-kill") as allocation:
        with started(allocation, processes) as (engine, ear):
            up = processes.all_up(3)
            assert engine.slots == 3
            assert [up[s]["env"]["SLURMD_NODENAME"] for s in range(3)] == list(allocation.nodes)
            assert up[1]["env"]["PROCESSION_AGENT_KEY"] == "5e"
            until(lambda: ear.said().count("hello") == 3, "their words")
            assert f"{allocation.nodes[2]}: hello from 2" in ear.said()
            lines = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, check=True)
            assert b"procession-agent" in lines.stdout
            assert b"PROCESSION_AGENT_KEY=" not in lines.stdout
            processes.end()
            until(lambda: len(ear.gone()) == 3, "their ends")
        assert not ear.over()  # the job is there, and may have other node processes
        assert "cpu binding" not in ear.said()


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("/nowhere/python", "agent"), "has no /nowhere/python: the Python of this command must"),
        (("python3", "-c", "import nosuchmodule"), "ModuleNotFoundError: No module named 'nosuch"),
    ],
)
def test_why_a_node_process_did_not_begin_is_told(slurm, argv, why):
    ear = Ear()
    with allocated(slurm, "-N2", "--no-kill") as allocation:
        engine = Slurm(allocation, env=dict(os.environ))
        try:
            engine.start(NodeCommand(argv, {}), ear)
            until(lambda: len(ear.gone()) == 2, "their ends", 20)
        finally:
            engine.close()
    for slot, node in enumerate(allocation.nodes):
        assert why in ear.said() + ear.gone()[slot]  # words may come after the news of the end
        assert node in ear.gone()[slot]


def test_a_node_process_has_all_of_its_node(slurm, tmp_path):
    """What the user asked for tasks does not shape the step of the node processes."""
    script = write(
        tmp_path / "drive.py",
        f"""
        import json, os, sys, time, pathlib
        sys.path[:0] = {[str(p) for p in (TESTS, TESTS.parent)]}
        from cluster.enginework import Ear, NodeProcesses
        from procession.engines.slurm.engine import Slurm
        processes, ear = NodeProcesses(pathlib.Path({str(tmp_path)!r})), Ear()
        engine = Slurm()
        print(engine.allocation)
        engine.start(processes.command, ear)
        for slot, told in sorted(processes.all_up(2).items()):
            print(slot, told["env"]["SLURM_CPUS_ON_NODE"], told["env"]["CUDA_VISIBLE_DEVICES"])
        processes.end()
        engine.close()
        """,
    )
    options = ["--ntasks-per-node=2", "--cpus-per-task=2", "--gpus-per-task=1", "--mem-per-cpu=10"]
    done = slurm.run("salloc", "-N2", "-w", "n2,n3", *options, PYTHON, script)
    seen, *lines = done.stdout.splitlines()
    assert seen.endswith("nodes=('n2', 'n3'), tasks_per_node=2, cpus_per_task=2, gpus_per_task=1)")
    assert lines == ["0 4 0,1", "1 4 0,1"], done.stderr


def test_the_end_of_the_job_is_told(slurm, processes):
    with (
        allocated(slurm, "-N2", "--no-kill") as allocation,
        started(allocation, processes) as (_, ear),
    ):
        processes.all_up(2)
        slurm.run("scancel", allocation.job)
        until(lambda: {"SIGTERM"} == {s for t in processes.up().values() for s in t["signals"]},
              "the notice")  # fmt: skip
        until(ear.over, "the end", 20)
        assert f"job {allocation.job} is" in ear.over()[0]


def test_a_kill_ends_all_node_processes(slurm, processes):
    with (
        allocated(slurm, "-N2", "--no-kill") as allocation,
        started(allocation, processes) as (engine, _),
    ):
        up = processes.all_up(2)
        engine.kill()
        gone([told["pid"] for told in up.values()])


def test_a_step_that_cannot_start_says_why(slurm, processes):
    with allocated(slurm, "-N2", "--no-kill") as allocation:
        wrong = Allocation(allocation.job, (*allocation.nodes, "nowhere"))
        with started(wrong, processes) as (_, ear):
            until(ear.over, "the end", 20)
            assert "started no node process: srun ended (exit code 1): " in ear.over()[0]
            assert "node" in ear.over()[0].lower()
            assert set(ear.gone()) == {0, 1, 2}


def test_a_job_that_is_gone_says_so(slurm, processes):
    with started(Allocation("99999", ("n1",)), processes) as (_, ear):
        until(ear.over, "the end", 20)
        assert "job 99999 is gone" in ear.over()[0]
        assert "Invalid job id" in ear.over()[0]


def test_srun_goes_with_the_last_node_process_of_a_killed_driver(slurm, tmp_path):
    """Node processes are not killed: they may end in order, and say what they do."""
    script = write(
        tmp_path / "drive.py",
        f"""
        import pathlib, sys, time
        sys.path[:0] = {[str(p) for p in (TESTS, TESTS.parent)]}
        from cluster.enginework import Ear, NodeProcesses
        from procession.engines.slurm.engine import Slurm
        from procession.engines.slurm.allocation import Allocation
        processes, ear = NodeProcesses(pathlib.Path({str(tmp_path)!r})), Ear()
        engine = Slurm(Allocation(sys.argv[1], tuple(sys.argv[2:])))
        engine.start(processes.command, ear)
        processes.all_up(2)
        print("srun", engine._steps[0].pid)
        time.sleep(60)
        """,
    )
    with allocated(slurm, "-N2", "--no-kill") as allocation:
        with Launcher(script, allocation.job, *allocation.nodes) as driver:
            srun = int(driver.said("srun"))
            assert alive(srun)
            driver.signal(signal.SIGKILL)
            driver.end()
            processes = tmp_path / "agents"
            said = list(processes.glob("*.*[0-9]"))  # each is replaced by a new one as a whole
            for path in said:
                os.kill(int(path.suffix[1:]), signal.SIGTERM)
            until(lambda: all("SIGTERM" in path.read_text() for path in said), "words")
            assert alive(srun)
            write(processes / "end.new", "0").rename(processes / "end")
            gone([srun])
        until(lambda: not slurm.run("squeue", "-h", "-s").stdout.strip(), "the step's end")


def test_a_node_that_slurm_lost_gets_no_node_process(slurm, processes):
    with (
        allocated(slurm, "-N2", "--no-kill", "-w", "n3,n4") as allocation,
        started(allocation, processes) as (engine, ear),
    ):
        processes.all_up(2)
        slurm.kill_node("n4")
        try:
            until(lambda: "Node failure on n4" in ear.said(), "the news", 30)
            assert not ear.gone()  # it is there: Slurm's own daemon is not
            with pytest.raises(EngineError, match="node n4 is down"):
                engine.replace(1)
        finally:
            slurm.start_node("n4")
        processes.end()


def test_outside_an_allocation_nothing_is_made(slurm):
    with pytest.raises(EngineError, match="not in an allocation of Slurm"):
        Slurm(env={"PATH": os.environ["PATH"]})


def test_without_slurm_it_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="srun is not on the PATH"):
        Slurm(env={})
    engine = Slurm(Allocation("1", ("n1",)))
    with pytest.raises(EngineError, match="srun is not on the PATH"):
        engine.start(NodeProcesses(tmp_path).command, Ear())
