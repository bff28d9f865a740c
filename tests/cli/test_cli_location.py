"""Environment and command line: where the launcher stands, or a refusal in one line."""

import os

import pytest

from seams.cli import read_request
from seams.system import free_port
from seams.values import SpecError

OF_OTHERS = ("OMPI_", "PMIX_", "PMI_", "MPI_", "SLURM_", "MASTER_", "PET_", "PROCESSION_", "JOB_")


def mpirun(rank, size, local, local_size, **more):
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    said = {
        f"OMPI_COMM_WORLD_{n}": v
        for n, v in zip(names, (rank, size, local, local_size), strict=True)
    }
    return {**said, "PMIX_NAMESPACE": "2123890689", **more}


def mpiexec(rank, size, local, local_size, **more):
    names = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    return {**dict(zip(names, (rank, size, local, local_size), strict=True)), **more}


def srun(rank, tasks, local, node, per_node="2(x2)", nodes="n[1-2]", **more):
    return {
        "SLURM_JOB_ID": 811, "SLURM_STEP_ID": 0, "SLURM_PROCID": rank,
        "SLURM_STEP_NUM_TASKS": tasks, "SLURM_LOCALID": local, "SLURM_NODEID": node,
        "SLURM_STEP_NODELIST": nodes, "SLURM_STEP_TASKS_PER_NODE": per_node, **more,
    }  # fmt: skip


def pod(index, **more):
    return {"JOB_COMPLETION_INDEX": index, **more}


RANK = srun(3, 4, 1, 1)  # one of two on the second machine
TASK = srun(1, 2, 0, 1, "1(x2)")  # one on each machine
THIRD = srun(2, 4, 0, 2, "1(x4)", "n[1-4]")
MACHINE = mpirun(1, 2, 0, 1)
STATIC = "--nnodes 4 --node-rank 1 --master-addr head"
C10D = "--nnodes 2 --rdzv-backend c10d"
APART = "--engine none"


def located(monkeypatch, words, env):
    for name in [n for n in os.environ if n.startswith(OF_OTHERS)]:
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, str(value))
    return read_request([*words.split(), "true"])


def told(request):
    """Say where a launcher stands: alone, with numbers, or one that meets others."""
    node, terms = request.spec.node, request.engine.terms if request.engine else None
    if request.engine and not terms:
        return f"engine {request.engine.name}, {request.engine.nodes} nodes"
    if not terms:
        at = f" at {node.address}:{node.port}".replace(" at 127.0.0.1:0", "")
        one = f"machine {node.rank}/{node.count}{at}"
        if node.number is None:
            return one
        threads = f", {node.threads} threads" * bool(node.threads)
        return f"rank {node.number}/{node.world}, {node.local}/{node.local_world} on {one}{threads}"
    which = f"{terms.number}" if terms.number is not None else "any"
    some = f"{terms.least}:{terms.most}".replace(f"{terms.most}:{terms.most}", f"{terms.most}")
    ranks = f", ranks at {terms.ranks_port}" * bool(terms.ranks_port)
    started = f" of {len(terms.together)} by {terms.starter}" * bool(terms.together)
    return f"{which}{started} for {some} at {terms.places}{ranks}"


@pytest.mark.parametrize(
    ("env", "words", "expected"),
    [
        # Nothing says anything about other machines.
        ({}, "", "machine 0/1"),
        ({}, "--master-port 4000", "machine 0/1 at 127.0.0.1:4000"),
        ({}, "--rdzv-backend c10d --rdzv-endpoint h:0", "machine 0/1"),
        (pod(3), "", "machine 0/1"),
        (mpirun(0, 1, 0, 1), "", "machine 0/1"),
        ({"PMI_RANK": 0, "PMI_SIZE": 4}, "", "machine 0/1"),  # srun --mpi=pmi2 without a step
        # A batch script, the shell of salloc, and srun --pty bash.
        ({"SLURM_JOB_ID": 811, "SLURM_NTASKS": 4, "SLURM_PROCID": 0}, "", "machine 0/1"),
        (srun(0, 4, 0, 0, SLURM_STEP_ID=4294967291), "", "machine 0/1"),
        # A group of its own, below something that has started several.
        (RANK, "-n 2 --nnodes 1", "machine 0/1"),
        (RANK, "--standalone", "machine 0/1"),
        ({**RANK, "PROCESSION_STANDALONE": 1}, "", "machine 0/1"),
        ({**RANK, "PROCESSION_RUN": "of_a_launcher_around"}, "", "machine 0/1"),
        # A launcher for each rank.
        (mpirun(3, 4, 3, 4), "", "rank 3/4, 3/4 on machine 0/1 at 127.0.0.1:P"),
        (mpirun(5, 8, 1, 4), "--master-addr h", "rank 5/8, 1/4 on machine 1/2 at h:P"),
        (mpiexec(1, 2, 1, 2), "--master-port 9", "rank 1/2, 1/2 on machine 0/1 at 127.0.0.1:9"),
        (RANK, "", "rank 3/4, 1/2 on machine 1/2 at n1:P"),
        ({**RANK, "SLURM_CPUS_PER_TASK": 6}, "", "rank 3/4, 1/2 on machine 1/2 at n1:P, 6 threads"),
        (srun(2, 4, 1, 0), "", "rank 2/4, 1/2 on machine 0/2 at n1:P"),  # dealt in turn
        (RANK, "--master-addr [::1] --master-port 9", "rank 3/4, 1/2 on machine 1/2 at ::1:9"),
        ({**RANK, "MASTER_ADDR": "m", "MASTER_PORT": 9}, "", "rank 3/4, 1/2 on machine 1/2 at m:9"),
        ({**TASK, **mpirun(3, 4, 1, 2)}, "--master-addr h", "rank 3/4, 1/2 on machine 1/2 at h:P"),
        # One on each machine: one job, of those that one command has started.
        (TASK, "", "1 of 2 by srun for 2 at n1:P"),
        (THIRD, "--nnodes 4", "2 of 4 by srun for 4 at n1:P"),
        (TASK, "--master-addr h --master-port 20009",
         "1 of 2 by srun for 2 at h:10009, ranks at 20009"),
        (MACHINE, "--master-addr h", "1 of 2 by mpirun for 2 at h:P"),
        (mpiexec(1, 2, 0, 1), "--master-addr h",
         "1 of 2 by mpiexec for 2 at h:19500, ranks at 29500"),
        (TASK, APART, "machine 1/2 at n1:P"),
        (TASK, f"{APART} --master-addr h --master-port 9", "machine 1/2 at h:9"),
        # Numbers by the command line, which counts more than variables.
        ({}, STATIC, "1 for 4 at head:19500, ranks at 29500"),
        ({}, f"{STATIC} {APART}", "machine 1/4 at head:29500"),
        ({}, "--nnodes 2 --rdzv-endpoint [::1]:20001", "0 for 2 at [::1]:10001, ranks at 20001"),
        (pod(3), STATIC, "1 for 4 at head:19500, ranks at 29500"),
        (pod(3), "--nnodes 4 --master-addr h", "3 for 4 at h:19500, ranks at 29500"),
        (pod(3, MASTER_ADDR="h", MASTER_PORT=20001), f"--nnodes 4 {APART}",
         "machine 3/4 at h:20001"),
        # Machines that find each other, whatever variables say.
        ({}, f"{C10D} --rdzv-endpoint h", "any for 2 at h:29400"),
        (pod(0), f"{C10D} --rdzv-endpoint h:9 --nnodes 1:3", "any for 1:3 at h:9"),
        ({}, C10D, "any for 2 at 127.0.0.1:29400"),
        (TASK, f"{C10D} --rdzv-endpoint h --engine none --lease 9", "any for 2 at h:29400"),
        # An engine.
        (RANK, "--engine ssh --hosts a,b", "engine ssh, 2 nodes"),
    ],
)  # fmt: skip
def test_location(monkeypatch, env, words, expected):
    shown = told(located(monkeypatch, words, env))
    head, computed, rest = expected.partition(":P")
    if not computed:
        assert shown == expected
        return
    port, *others = shown.removeprefix(f"{head}:").removesuffix(rest).strip(")").split(" (or ")
    assert shown.startswith(head)
    assert 20000 <= int(port) < 32000  # where Linux's own choice begins
    assert len(others) == (" by " in expected)


OWN = "for a group of its own, write --nnodes 1"
EXTRA = "--nnodes says 3 machines, but srun has started this command on 2 machines"


@pytest.mark.parametrize(
    ("env", "words", "said"),
    [
        (mpirun(4, 4, 0, 4), "", f"contradict each other: number 4 of 4, .*; {OWN}"),
        (mpirun("x", 4, 0, 4), "", f"OMPI_COMM_WORLD_RANK is 'x', no number.*{OWN}"),
        (mpirun(1, 4, 0, 2), "", "mpirun has not numbered ranks machine by machine"),
        (srun(0, 4, 0, 0, nodes="n[1-"), "", f"not as Slurm writes them.*; {OWN}"),
        (srun("x", 4, 0, 0), "", "SLURM_PROCID must be a count"),
        (srun(0, 4, "", 0), "", "SLURM_LOCALID is '', no number"),
        (srun(0, 4, 0, 2), "", "contradict each other: SLURM_NODEID=2"),
        (RANK, "-n 2", "was started 4 times, 2 of them on this machine, once for each rank"),
        (RANK, "--cpus-per-rank 1", "--cpus-per-rank cannot be: each rank has a launcher of its"),
        (RANK, "--nnodes 2 --master-addr h", "has started this command 4 times, once for each"),
        ({**RANK, "MASTER_PORT": "http"}, "", "MASTER_PORT must be a port from 1 to 65535"),
        (TASK, "--nnodes 3", EXTRA),
        (THIRD, "--nnodes 2:4", "--nnodes says 2:4 machines, but srun has started this command on"),
        (TASK, "--spare-nodes 1", "--spare-nodes is for machines that procession asks for"),
        (
            TASK,
            "--live",
            "--live is for the ranks of one machine; it does not go with a rendezvous",
        ),
        (TASK, "--detach", "--detach is for the ranks of one machine; it does not go with a "),
        (
            MACHINE,
            "",
            "nothing says where ranks meet: write --master-addr HOST, .* set MASTER_ADDR",
        ),
        (
            pod(4),
            "--nnodes 4 --master-addr a",
            "INDEX and its like contradict each other: number 4",
        ),
        (pod(1), "--nnodes 4", "these are 4 machines, but nothing says where ranks meet: write"),
        ({}, "--nnodes 2", "these are 2 machines, but nothing says where ranks meet: write"),
        ({}, "--nnodes 2 --rdzv-backend etcd", "no rendezvous 'etcd' here; write --rdzv-backend "),
    ],
)
def test_a_refusal(monkeypatch, env, words, said):
    with pytest.raises(SpecError, match=said) as caught:
        located(monkeypatch, words, env)
    assert "\n" not in str(caught.value)


def test_all_processes_of_a_job_have_the_same_ports_and_another_job_has_others(monkeypatch):
    def ports(env):
        with monkeypatch.context() as patch:
            terms = located(patch, "--master-addr h", env).engine.terms
        return terms.port, *terms.further

    first = ports(mpirun(0, 2, 0, 1))
    assert len(first) > 5
    assert ports(mpirun(1, 2, 0, 1)) == first
    assert not {*ports(mpirun(0, 2, 0, 1, PMIX_NAMESPACE="other"))} & {*first}


def test_what_a_launcher_for_itself_says(monkeypatch):
    """The first one on each machine says it."""
    words = f"--master-port {free_port()}"
    (said,) = located(monkeypatch, words, srun(2, 4, 0, 1)).notes
    assert said.startswith("this is rank 2 of 4, with 2 on this machine, by the variables of srun ")
    assert said.endswith(f"; ranks meet at n1:{words.split()[1]}; {OWN} [P414]")
    assert located(monkeypatch, words, RANK).notes == []
