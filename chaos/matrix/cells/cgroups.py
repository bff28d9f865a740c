"""The versions of cgroups, as what is mounted shows them."""

from __future__ import annotations

from pathlib import Path

from chaos.matrix.cell import Cell
from chaos.matrix.environment import Environment, Mount

ROOT = "/sys/fs/cgroup"
UNIFIED = f"{ROOT}/unified"
MAY = ("oom_kill", "rank_cgroups")


def _mounts() -> list[list[str]]:
    return [line.split() for line in Path("/proc/mounts").read_text().splitlines()]


def _lacks_version_1() -> str:
    kinds = {words[2] for words in _mounts()}
    return "" if "cgroup" in kinds else "this machine has no cgroups of version 1"


def _without_version_2() -> tuple[Mount, ...]:
    """Take away what is mounted of version 2, below or instead of version 1."""
    return tuple(Mount("unmount", words[1]) for words in _mounts() if words[2] == "cgroup2")


CELLS = {
    "cgroup_v1": Cell(
        "cgroups of version 1 only",
        Environment(("mount",), _without_version_2()),
        ("kill_group",),
        MAY,
        lacks=_lacks_version_1,
    ),
    "cgroup_v2": Cell(
        "cgroups of version 2 only",
        Environment(("mount",), (Mount("unmount", ROOT), Mount("cgroup2", ROOT, "cgroup"))),
        may=MAY,
    ),
    "no_cgroups": Cell(
        "no cgroups",
        Environment(("mount",), (Mount("unmount", ROOT),)),
        ("kill_group", "oom_kill"),
        MAY,
    ),
}
