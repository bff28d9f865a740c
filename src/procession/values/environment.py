"""The environment variables that each rank has from torchrun, and patterns of their names.

The names and meanings are those of torchrun, so that `init_process_group` with `env://` works; see
https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables.

In a pattern, `X_*` stands for all names that begin with `X_`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from procession.values.base import Value


class Node(Value):
    """A group's place among the groups of one job, one on each of several machines.

    rank: this machine's number. count: how many machines there are, each with as many ranks.
    address: where rank 0 of the job listens. port: on which port; 0: a free one for each attempt,
        which only ranks of this machine can know.
    role: of the ranks; "": the inherited ROLE_NAME, or "default".
    run_id: what the job is called; "": the inherited TORCHELASTIC_RUN_ID, or the run's own name.
    attempt, restarts: which life of the job this group belongs to, and how many restarts are
        allowed, if a driver restarts the group, and not the group itself. regrouped: how many
        attempts ended because a machine came or went, which is no failure.
    job: the id of the run of which this group is a part; "": it is a run of its own.

    Where every rank of the job has a launcher, and so a group, of its own (under mpirun or srun):
    number: of the group's rank 0 in the job; None: by machines, each with as many ranks.
    world: how many ranks the job has; 0: as many on each machine as in this group.
    local: which of this machine's ranks the group's rank 0 is. local_world: how many ranks this
        machine has; 0: those of this group.
    threads: for OMP_NUM_THREADS, where that is known; 0: a share of the machine's cores.
    """

    rank: int = 0
    count: int = 1
    address: str = "127.0.0.1"
    port: int = 0
    role: str = ""
    run_id: str = ""
    attempt: int = 0
    restarts: int = 0
    regrouped: int = 0
    job: str = ""
    number: int | None = None
    world: int = 0
    local: int = 0
    local_world: int = 0
    threads: int = 0

    def first(self, nproc: int) -> int:
        """Give the number that rank 0 of a group of `nproc` ranks has in the whole job."""
        return self.rank * nproc if self.number is None else self.number

    def size(self, nproc: int) -> int:
        """Give how many ranks the whole job has."""
        return self.world or self.count * nproc

    def local_size(self, nproc: int) -> int:
        """Give how many ranks of the job this machine has."""
        return self.local_world or nproc


ALONE = Node()


def given_run_id(env: Mapping[str, str]) -> str:
    """Give the run's name that the user set; "" for none, or if it is that of an outer group."""
    name = env.get("TORCHELASTIC_RUN_ID", "")
    return "" if name == env.get("PROCESSION_RUN") else name


def rank_environment(
    node: Node, rank: int, nproc: int, role: str, inherited: Mapping[str, str], cores: int = 1
) -> dict[str, str]:
    """Give torch's variables of one rank without an error file; see `common_environment`.

    rank: its number in this group.
    """
    return {
        **common_environment(node, nproc, role, inherited, cores),
        **own_environment(node.local + rank, node.first(nproc) + rank, ""),
    }


def common_environment(
    node: Node, nproc: int, role: str, inherited: Mapping[str, str], cores: int
) -> dict[str, str]:
    """Give torch's variables that are the same in every rank of this group, which has `nproc`.

    node: with what is true of this attempt. role: where the node has none. cores: that this process
    may use.

    OMP_NUM_THREADS is set to cores ÷ ranks if this machine has more than one rank and `inherited`
    does not have it: without it, each rank would start a thread for every core.
    """
    world, here = str(node.size(nproc)), node.local_size(nproc)
    env = {
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": str(here),
        "GROUP_RANK": str(node.rank),
        "GROUP_WORLD_SIZE": str(node.count),
        "ROLE_NAME": node.role or role,
        "ROLE_WORLD_SIZE": world,
        "MASTER_ADDR": node.address,
        "MASTER_PORT": str(node.port),
        "TORCHELASTIC_RUN_ID": node.run_id or given_run_id(inherited),
        "TORCHELASTIC_RESTART_COUNT": str(node.attempt - node.regrouped),
        "TORCHELASTIC_MAX_RESTARTS": str(node.restarts),
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": inherited.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        "PYTHONUNBUFFERED": "1",
    }
    if here > 1 and "OMP_NUM_THREADS" not in inherited:
        env["OMP_NUM_THREADS"] = str(node.threads or max(1, cores // here))
    return env


def own_environment(local: int, number: int, error_file: str) -> dict[str, str]:
    """Give the variables that differ between ranks.

    local: its rank on this machine. number: its rank in the whole job.
    """
    return {
        "RANK": str(number),
        "LOCAL_RANK": str(local),
        "ROLE_RANK": str(number),
        "TORCHELASTIC_ERROR_FILE": error_file,
    }


def callers_environment(env: Mapping[str, str]) -> dict[str, str | None]:
    """Give what undoes the variables that ranks otherwise get; None removes one.

    env: what ranks are to find instead, the caller's own variables.
    """
    return {name: env.get(name) for name in rank_environment(ALONE, 0, 2, "", {})}


def among(patterns: Iterable[str], name: str) -> bool:
    """Tell whether a pattern matches the variable `name`."""
    names, beginnings = _taken_apart(tuple(patterns))
    return name in names or name.startswith(beginnings)


@cache
def _taken_apart(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    beginnings = tuple(p[:-1] for p in patterns if p.endswith("*"))
    return frozenset(p for p in patterns if not p.endswith("*")), beginnings
