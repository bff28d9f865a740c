"""Groups of other launchers, told by the environment of their processes."""

import os

import pytest

from seams.control import Process, below, group_foreign, parse_environment, read_processes


def process(pid, parent, words="python", **env):
    return Process(pid, parent, 1, 0.0, 0, tuple(words.split()), env)


def grouped(*processes):
    return group_foreign({p.pid: p for p in processes})


def torchrun(rank, world, job="none"):
    return {"RANK": str(rank), "WORLD_SIZE": str(world), "TORCHELASTIC_RUN_ID": job}


def test_torchrun():
    agent = process(10, 1, "torchrun train.py")
    ranks = [process(11 + r, 10, "python train.py", **torchrun(r, 2)) for r in range(2)]
    loader = process(20, 12, "python loader", **torchrun(1, 2))  # has its parent's variables
    (found,) = grouped(agent, *ranks, loader)
    assert (found.kind, found.launcher, found.world) == ("torchrun", 10, 2)
    assert found.ranks == {0: 11, 1: 12}
    assert found.pids == (11, 12, 20)
    assert found.words == ("torchrun", "train.py")


def test_mpirun_and_its_like():
    mpi = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "SLURM_PROCID": "0"}
    (found,) = grouped(process(10, 1, "orted"), process(11, 10, **mpi))
    assert (found.kind, found.ranks, found.world) == ("mpirun", {3: 11}, 8)
    (found,) = grouped(process(10, 1), process(11, 10, PMI_RANK="1", PMI_SIZE="2"))
    assert (found.kind, found.ranks) == ("mpiexec", {1: 11})


def test_srun():
    env = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    (found,) = grouped(process(11, 10, "bash", **env), process(12, 11, "python", **env))
    assert (found.kind, found.launcher, found.ranks, found.world) == ("srun", 10, {0: 11}, 4)


def test_multiprocessing_and_ray():
    code = "python -c from multiprocessing.spawn import spawn_main; spawn_main(parent_pid=10)"
    worker = Process(11, 10, 1, 0.0, 0, tuple(code.split(" ", 2)), {})
    (found,) = grouped(process(10, 1, "python main.py"), worker)
    assert (found.kind, found.launcher, found.ranks) == ("multiprocessing", 10, {0: 11})
    (found,) = grouped(process(10, 1, "raylet"), process(11, 10, "ray::train"))
    assert found.kind == "ray"


def test_ours_and_the_rest_are_left_out():
    assert not grouped(process(11, 10, **torchrun(0, 1), PROCESSION_RUN="mine"))
    assert not grouped(process(11, 10), process(12, 10, RANK="0"), process(13, 1, PMI_RANK="x"))


def test_a_circle_of_parents_is_no_endless_loop():
    assert grouped(process(10, 11, **torchrun(0, 1)), process(11, 10, **torchrun(0, 1)))
    assert below([10], {10: process(10, 11), 11: process(11, 10)}) == {10, 11}


def test_the_environment_is_read_as_it_is():
    data = b"RANK=3\0HOME=/root\0WORLD_SIZE=\xff\0\0noequals\0PROCESSION_RUN=a=b\0"
    found = parse_environment(data)
    assert found == {"RANK": "3", "WORLD_SIZE": "\ufffd", "PROCESSION_RUN": "a=b"}


def fake(root, pid, stat, cmdline=b"", environ=b""):
    place = root / str(pid)
    place.mkdir(parents=True)
    for name, data in (("stat", stat), ("cmdline", cmdline), ("environ", environ)):
        (place / name).write_bytes(data)


def test_processes_are_read_from_proc(tmp_path):
    def stat(state, parent):
        fields = [state, str(parent), *["0"] * 9, "100", "50", *["0"] * 6, "777", "0", "3"]
        return f"9 (odd) name) {' '.join(fields)}".encode()

    fake(tmp_path, 9, stat("S", 1), b"python\0a b\0", b"RANK=0\0")
    fake(tmp_path, 10, stat("Z", 9))
    (tmp_path / "self").mkdir()
    (tmp_path / "11").mkdir()  # it is gone
    (found,) = read_processes(str(tmp_path)).values()
    assert (found.pid, found.parent, found.start, found.env) == (9, 1, 777, {"RANK": "0"})
    assert found.words == ("python", "a b")
    assert found.cpu == pytest.approx(150 / os.sysconf("SC_CLK_TCK"))
    assert found.memory == 3 * os.sysconf("SC_PAGE_SIZE")
