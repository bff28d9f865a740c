"""Slurm's command line: the step that holds the node processes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from procession.engines.slurm.allocation import expand

# Variables that `srun` takes as options. A batch script and a shell of salloc have those that the
# user asked for *tasks*; a node process gets all of its node.
SHAPING = (
    "NTASKS", "NPROCS", "NNODES", "JOB_NUM_NODES", "NTASKS_PER_NODE", "NTASKS_PER_CORE",
    "NTASKS_PER_GPU", "NTASKS_PER_SOCKET", "NTASKS_PER_TRES", "CPUS_PER_TASK", "CPUS_PER_GPU",
    "TRES_PER_TASK", "GPUS", "GPUS_PER_NODE", "GPUS_PER_SOCKET", "GPUS_PER_TASK", "GPU_BIND",
    "GRES", "STEP_GRES", "GRES_FLAGS", "MEM_PER_CPU", "MEM_PER_GPU", "MEM_PER_NODE", "MEM_BIND",
    "CPU_BIND", "CPU_BIND_TYPE", "CPU_BIND_LIST", "CPU_BIND_VERBOSE", "DISTRIBUTION",
    "DIST_PLANESIZE", "HINT", "THREADS_PER_CORE", "CORE_SPEC", "THREAD_SPEC", "EXACT", "EXCLUSIVE",
    "OVERLAP", "WHOLE", "OVERCOMMIT", "SPREAD_JOB", "USE_MIN_NODES", "RESV_PORTS",
    "KILL_BAD_EXIT", "NO_KILL", "WAIT", "TIMELIMIT", "SIGNAL", "DEPENDENCY", "IMMEDIATE",
    "LABELIO", "UNBUFFEREDIO", "STDINMODE", "STDOUTMODE", "STDERRMODE", "OPEN_MODE", "EXPORT_ENV",
    "JOB_NAME", "DEBUG", "EXIT_ERROR", "EXIT_IMMEDIATE", "MPI_TYPE", "HOSTFILE", "TASK_PROLOG",
    "TASK_EPILOG", "PROLOG", "EPILOG", "MULTI_PROG", "DISABLE_STATUS", "TEST_EXEC", "THREADS",
    "REMOTE_CWD", "WORKING_DIR",
)  # fmt: skip
SHAPING_NAMES = frozenset(f"{tool}_{name}" for tool in ("SLURM", "SRUN") for name in SHAPING)
STARTED = "procession-agent-started"  # what a task prints before it becomes the node process
MISSING = "procession-agent-missing"  # what it prints if it cannot: the program that is missing
BECOME = (
    f'echo {STARTED} "$SLURMD_NODENAME"; '
    f'command -v "$1" >/dev/null || {{ echo {MISSING} "$1"; exit 127; }}; exec "$@"'
)
NOISE = ("srun: cluster configuration lacks support for cpu binding",)
TOLD = re.compile(r"\s*(\d+): ?(.*)", re.DOTALL)
TASKS = re.compile(r"srun: error: .*?\btasks? (\d+(?:[,-]\d+)*)(?:: (.*)| (launch failed.*))")
NODE_FAILED = re.compile(r"srun: error: Node failure on (\S+)")


def step_environment(env: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Give the environment of `srun` and its tasks, without variables that change the step."""
    return {**{n: v for n, v in env.items() if n not in SHAPING_NAMES}, **more}


def step_command(
    argv: Iterable[str], *, job: str, nodes: Iterable[str], gpus: int | None = None
) -> list[str]:
    """Give the command that runs `argv` once on each of these nodes, with all that the job has
    there.

    The first words of each task are `STARTED` and its node. gpus: of the job on each node, where it
    asked for them by task: Slurm gives a step its share of these by its own tasks, unless the step
    says otherwise.
    """
    nodes = list(nodes)
    return [
        "srun",
        f"--jobid={job}",
        f"--nodes={len(nodes)}",
        f"--ntasks={len(nodes)}",
        "--ntasks-per-node=1",
        f"--nodelist={','.join(nodes)}",
        "--job-name=procession",
        "--overlap",  # the job's other steps, and a node process's successor, want the same CPUs
        "--cpu-bind=none",
        "--mpi=none",  # ranks are no MPI tasks of this step
        "--kill-on-bad-exit=0",
        "--no-kill",
        "--wait=0",  # some node processes may end long before others
        "--input=none",
        "--label",  # and not --unbuffered, which would break lines that are written in pieces
        "--export=ALL",
        *([] if gpus is None else [f"--gpus-per-node={gpus}"]),
        "sh",
        "-c",
        BECOME,
        "procession-agent",
        *argv,
    ]


def read_line(line: str) -> tuple[int | None, str]:
    """Take a line of srun's apart: the number of the task that said it, None for srun; the rest."""
    match = TOLD.fullmatch(line)
    return (int(match[1]), match[2]) if match else (None, line)


def read_ends(line: str) -> tuple[tuple[int, ...], str]:
    """Give the tasks of which srun says in this line that they are gone, and why."""
    match = TASKS.match(line)
    if match is None:
        return (), ""
    why = match[2] or match[3]
    return tuple(map(int, expand(f"[{match[1]}]"))), why[:1].lower() + why[1:]


def read_lost(line: str) -> str | None:
    """Give the node of which srun says in this line that Slurm has lost it."""
    match = NODE_FAILED.match(line)
    return match and match[1]
