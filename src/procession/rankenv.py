"""The environment variables of each rank: torchrun's, and our own.

The names and meanings are those of torchrun, so that `init_process_group` with `env://` works; see
https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables.
"""

from __future__ import annotations

from collections.abc import Mapping

from procession.values import Value


class Place(Value):
    """Where a group runs: its address for rendezvous, its run, and the cores it may use.

    address, port: of rank 0's rendezvous. run_id: names the run. attempt, restarts: which life of
    the group, and how many more there may be in all. cores: that this process may use.
    """

    address: str
    port: int
    run_id: str
    attempt: int
    restarts: int
    cores: int


def given_run_id(env: Mapping[str, str]) -> str:
    """Give the run's name that the user set, "" for none or for that of a group around this one."""
    name = env.get("TORCHELASTIC_RUN_ID", "")
    return "" if name == env.get("PROCESSION_RUN") else name


def rank_environment(
    place: Place, rank: int, nproc: int, role: str, error_file: str, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Give the variables of one rank on one machine.

    OMP_NUM_THREADS is set to cores ÷ ranks where there is more than one rank and it is not in
    `inherited`: without it, each rank would start a thread for every core.
    """
    env = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(nproc),
        "LOCAL_WORLD_SIZE": str(nproc),
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_RANK": str(rank),
        "ROLE_NAME": role,
        "ROLE_WORLD_SIZE": str(nproc),
        "MASTER_ADDR": place.address,
        "MASTER_PORT": str(place.port),
        "TORCHELASTIC_RUN_ID": given_run_id(inherited) or place.run_id,
        "TORCHELASTIC_RESTART_COUNT": str(place.attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(place.restarts),
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": error_file,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": inherited.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        "PYTHONUNBUFFERED": "1",
        "PROCESSION_RUN": place.run_id,
    }
    if nproc > 1 and "OMP_NUM_THREADS" not in inherited:
        env["OMP_NUM_THREADS"] = str(max(1, place.cores // nproc))
    return env


def callers_environment(env: Mapping[str, str]) -> dict[str, str | None]:
    """Give what undoes the variables that ranks otherwise get; None takes one away.

    env: what ranks are to find instead, the caller's own variables.
    """
    nowhere = Place(address="", port=0, run_id="", attempt=0, restarts=0, cores=1)
    added = rank_environment(nowhere, 0, 2, "", "", {}).keys() - {"PROCESSION_RUN"}
    return {name: env.get(name) for name in added}
