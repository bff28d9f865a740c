"""The groups of other launchers, recognised by the variables of their ranks. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from procession.control.processes import Process, ancestors
from procession.values.base import Value

SPAWN = "from multiprocessing.spawn import spawn_main"


class Foreign(Value):
    """The processes of one launcher.

    kind: what it is called. launcher: its pid. ranks: pid by rank, where ranks have numbers,
    else they are numbered here. world: how many there should be, 0 if not known. pids: all
    of its processes that are known. words: the launcher's command line, or that of its first rank.
    """

    kind: str
    launcher: int
    ranks: Mapping[int, int]
    world: int
    pids: tuple[int, ...]
    words: tuple[str, ...]


class _Place(Value):
    kind: str
    job: str
    rank: int
    world: int


def group_foreign(processes: Mapping[int, Process]) -> list[Foreign]:
    """Sort processes by launcher; what runs under procession is left out."""
    places = {p.pid: place for p in processes.values() if (place := _place(p)) is not None}
    members: dict[tuple[str, str, int], list[int]] = {}
    for pid, place in places.items():
        launcher = _launcher(pid, place, places, processes)
        members.setdefault((place.kind, place.job, launcher), []).append(pid)
    found: list[Foreign] = []
    for (kind, _, launcher), pids in members.items():
        # Of a rank and its children, which have its variables, the one next to the launcher.
        pids.sort(key=lambda pid: (len(ancestors(pid, processes)), pid))
        ranks: dict[int, int] = {}
        for pid in pids:
            rank = places[pid].rank
            ranks.setdefault(rank if rank >= 0 else len(ranks), pid)
        above = processes.get(launcher)
        words = above.words if above is not None and above.words else processes[pids[0]].words
        world = max(places[pid].world for pid in pids)
        found.append(Foreign(kind, launcher, ranks, world, tuple(sorted(pids)), words))
    return sorted(found, key=lambda group: group.launcher)


def _launcher(
    pid: int, place: _Place, places: Mapping[int, _Place], processes: Mapping[int, Process]
) -> int:
    """Give the nearest process above that is not of the same job."""
    for above in ancestors(pid, processes):
        other = places.get(above)
        if other is None or (other.kind, other.job) != (place.kind, place.job):
            return above
    return 0


def _place(process: Process) -> _Place | None:
    env = process.env
    if "PROCESSION_RUN" in env or "PROCESSION_LAUNCHER" in env:
        return None
    if {"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"} <= env.keys():
        by_accelerate = any(name.startswith("ACCELERATE_") for name in env)
        kind = "accelerate" if by_accelerate else "torchrun"
        return _numbered(kind, env["TORCHELASTIC_RUN_ID"], env["RANK"], env["WORLD_SIZE"])
    if "OMPI_COMM_WORLD_RANK" in env:
        size = env.get("OMPI_COMM_WORLD_SIZE", "")
        return _numbered("mpirun", "", env["OMPI_COMM_WORLD_RANK"], size)
    if "PMI_RANK" in env and "SLURM_PROCID" not in env:
        return _numbered("mpiexec", "", env["PMI_RANK"], env.get("PMI_SIZE", ""))
    if "SLURM_PROCID" in env:
        job = f"{env.get('SLURM_JOB_ID', '')}.{env.get('SLURM_STEP_ID', '')}"
        return _numbered("srun", job, env["SLURM_PROCID"], env.get("SLURM_NTASKS", ""))
    if process.words and process.words[0].startswith("ray::"):
        return _Place("ray", "", -1, 0)
    if any(SPAWN in word for word in process.words):
        return _Place("multiprocessing", "", -1, 0)
    return None


def _numbered(kind: str, job: str, rank: str, world: str) -> _Place | None:
    if not rank.isdecimal():
        return None
    return _Place(kind, job, int(rank), int(world) if world.isdecimal() else 0)
