"""What mpirun, mpiexec, srun and Kubernetes say in variables when they start this command.

They say which of how many processes this is, but not what the processes are for. A process that is
alone on its machine is taken for the launcher of all ranks of the machine; each of several on one
machine is taken for the launcher of one rank.

Sources: Open MPI, https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html; Hydra of
MPICH and Intel MPI, PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (srun --mpi=pmi2 sets the
first two as well, so that only the last two tell of Hydra); Slurm, the output environment variables
in https://slurm.schedmd.com/srun.html. A batch script, and a shell that srun --pty has started,
have most of Slurm's variables, too, but no step with several tasks.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fcntl import ioctl
from termios import FIONREAD
from zlib import crc32

from procession.engines.contract import EngineError
from procession.engines.slurm.allocation import read_task
from procession.system.files import read
from procession.system.ports import FIRST, LAST
from procession.system.processes import parents
from procession.values.base import Value, is_count
from procession.values.errors import SpecError

OWN = "for a group of its own, write --nnodes 1"
OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE")  # fmt: skip
POD = "JOB_COMPLETION_INDEX"  # of an Indexed Job of Kubernetes
HYDRA = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
READ_WITHIN = 2.0  # seconds for Hydra to read the report
PORTS = 8  # at which the launchers of one job may meet


class Started(Value):
    """Which one of several launchers this process is.

    starter: the command that started them, "" where each has a console of its own. variable: the
    one that has its number. rank, size: its number among all of them, and how many there are.
    local, local_size: the same on this machine. machine: which one this is. machines: the names of
    all, "" for those that are not known. job: the name of the job, "" if unknown. cpus: that each
    process has for itself, 0 if unknown.
    """

    starter: str
    variable: str
    rank: int
    size: int
    local: int = 0
    local_size: int = 1
    machine: int = 0
    machines: tuple[str, ...] = ("",)
    job: str = ""
    cpus: int = 0

    @property
    def per_rank(self) -> bool:
        """Whether there is a process for every rank, and not for every machine."""
        return self.size > len(self.machines)

    @property
    def ports(self) -> list[int]:
        """Ports made of the job's name, the same in all its processes; none without a name."""
        seeds = [f"{self.job} {number}".encode() for number in range(PORTS)] if self.job else []
        return list(dict.fromkeys(FIRST + crc32(seed) % (LAST - FIRST) for seed in seeds))


def read_started(env: Mapping[str, str], count: int) -> Started | None:
    """Read what has started this command; None for nothing, or for a single process.

    count: of machines, by the options: pods know their number, but not how many there are. In a
    rank of a group, the variables are about that group's launcher, and are not read. Raises
    SpecError where variables contradict each other.
    """
    found = None
    if "PROCESSION_RUN" in env:
        return None
    if OPEN_MPI[1] in env:
        name = env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid", "")
        found = _mpi(env, "mpirun", OPEN_MPI, f"mpirun_{name}" if name else "")
    elif HYDRA[3] in env:
        found = _mpi(env, "mpiexec", HYDRA, "")
    elif "SLURM_STEP_NUM_TASKS" in env:
        found = _slurm(env)
    if found is None and count > 1 and POD in env:
        (pod,) = _numbers(env, POD)
        found = Started("", POD, pod, count, machine=pod, machines=("",) * count)
    if found is None or found.size < 2:
        return None
    if not (found.rank < found.size and found.local < found.local_size <= found.size):
        raise SpecError(
            f"{found.variable} and its like contradict each other: number {found.rank} of "
            f"{found.size}, and number {found.local} of {found.local_size} on this machine; {OWN}"
        )
    return found


def _mpi(env: Mapping[str, str], starter: str, names: Sequence[str], job: str) -> Started:
    """Number the machines by the ranks, for MPI has no variable for them: as many on each."""
    rank, size, local, local_size = _numbers(env, *names)
    if not local_size or (rank - local) % local_size or size % local_size:
        raise SpecError(
            f"{starter} has not numbered ranks machine by machine, with as many on each: this is "
            f"rank {rank} of {size}, and number {local} of {local_size} on its machine; write "
            f"`{starter} --map-by ppr:{local_size}:node`, or -ppn {local_size}; {OWN}"
        )
    if names is HYDRA and size == local_size:  # other machines do not know the process
        job = _of_proxy()
    machines = ("",) * (size // local_size)
    return Started(
        starter, names[0], rank, size, local, local_size, rank // local_size, machines, job
    )


def _of_proxy() -> str:
    """Name the job by Hydra's process on this machine, the nearest ancestor that is no rank."""
    for pid in parents(os.getpid()) or ():
        if "PMI_RANK=" not in (read(f"/proc/{pid}/environ") or ""):
            return f"mpiexec_{pid}"
    return ""


def pass_pmi(env: Mapping[str, str], passed: Sequence[int]) -> tuple[tuple[int, ...], list[str]]:
    """Give the descriptors that a rank inherits, and what is to be said.

    Hydra, and srun --mpi=pmi2, serve an MPI program by the descriptor that PMI_FD names. passed:
    those that were asked for.
    """
    text = env["PMI_FD"]
    try:
        os.fstat(int(text))
    except (ValueError, OverflowError, OSError):
        why = f"PMI_FD={text} is no open descriptor: MPI_Init in the rank cannot find the others"
        return tuple(passed), [f"{why}; let mpiexec or srun start procession itself [P427]"]
    return (*passed, int(text)), []


def abort_others(env: Mapping[str, str], code: int) -> None:
    """Have Hydra end the other processes of its job: one rank's failure ends all of them.

    By itself it does so only for a rank that has called MPI_Init. It then drops what it has not
    read yet of our output, so that is waited for. code: what mpiexec exits with.
    """
    if HYDRA[3] not in env:
        return
    until = time.monotonic() + READ_WITHIN
    while any(map(_unread, (1, 2))) and time.monotonic() < until:
        time.sleep(0.005)
    with suppress(OSError, ValueError, OverflowError):
        os.write(int(env["PMI_FD"]), b"cmd=abort exitcode=%d\n" % code)


def _unread(fd: int) -> bool:
    """Tell whether a pipe has something that its reader has not taken yet."""
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode) and any(ioctl(fd, FIONREAD, bytes(4)))
    except OSError:
        return False


def _slurm(env: Mapping[str, str]) -> Started | None:
    try:
        task = read_task(env)
    except EngineError as e:
        raise SpecError(f"srun's variables are not as Slurm writes them: {e}; {OWN}") from None
    if task is None or task.count < 2:
        return None
    here = task.tasks_on_nodes
    local, machine = _numbers(env, "SLURM_LOCALID", "SLURM_NODEID")
    if not machine < len(task.nodes) == len(here) or sum(here) != task.count:
        said = ", ".join(f"{n}={v}" for n, v in env.items() if n.startswith("SLURM_STEP_"))
        raise SpecError(
            f"srun's variables contradict each other: SLURM_NODEID={machine}, {said}; {OWN}"
        )
    cpus = env.get("SLURM_CPUS_PER_TASK", "")
    return Started(
        "srun", "SLURM_PROCID", task.number, task.count, local, here[machine], machine, task.nodes,
        job=f"slurm_{task.job}.{task.step}", cpus=int(cpus) if is_count(cpus) else 0,
    )  # fmt: skip


def _numbers(env: Mapping[str, str], *names: str) -> list[int]:
    for name in names:
        if not is_count(env.get(name, "")):
            raise SpecError(f"{name} is {env.get(name, '')!r}, no number; {OWN}")
    return [int(env[name]) for name in names]
