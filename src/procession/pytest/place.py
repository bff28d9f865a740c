"""Which rank this process is, according to the variables of the launcher that started it."""

from __future__ import annotations

from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Variables of launchers: the rank, how many there are, how many of them on this machine, and those
# by which runs at the same time differ.
LAUNCHERS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    ),
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", ("PMI_PORT", "HYDI_CONTROL_FD")),
    ("SLURM_PROCID", "SLURM_NTASKS", "", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
)


class PlaceOfRank(Value):
    """number: of this rank. size: how many there are. name: that all of them have in common."""

    number: int
    size: int
    name: str


def place_of(environment: Mapping[str, str], parent: int) -> PlaceOfRank:
    """Find out. parent: the pid of the process that has started this one.

    Raises ValueError where there is no launcher, or where its ranks are on several machines.
    """
    for rank, size, local, names in LAUNCHERS:
        if rank not in environment or size not in environment:
            continue
        number, count = int(environment[rank]), int(environment[size])
        if int(environment.get(local, count)) != count or _several(environment, rank):
            raise ValueError(f"the {count} ranks are on several machines, which is not supported")
        known = [f"{name}={environment[name]}" for name in names if name in environment]
        return PlaceOfRank(number, count, ",".join([rank, str(count), *(known or [str(parent)])]))
    found = ", ".join(rank for rank, *_ in LAUNCHERS)
    raise ValueError(f"no launcher has started this process: none of {found} is set")


def _several(environment: Mapping[str, str], rank: str) -> bool:
    return rank == "SLURM_PROCID" and environment.get("SLURM_NNODES", "1") != "1"
