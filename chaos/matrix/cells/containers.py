"""Containers: the namespaces, mounts, capabilities and filters that their runtimes give them.

The filters are descriptions of the published ones (`profiles/`, each with its source).
"""

from __future__ import annotations

from chaos.matrix import interpreters, seccomp
from chaos.matrix.cell import Cell
from chaos.matrix.cells.users import OTHER, OWN_PROC
from chaos.matrix.environment import Environment, Mount

NAMESPACES = ("mount", "pid", "ipc", "uts", "cgroup")
# As runtimes mount them: no process of the container reads or changes the machine's own.
MASKED = ("acpi", "kcore", "keys", "latency_stats", "timer_list", "sched_debug", "scsi")
PROTECTED = ("bus", "fs", "irq", "sys", "sysrq-trigger")
MOUNTS = (
    OWN_PROC,
    *(Mount("protected", f"/proc/{name}") for name in PROTECTED),
    *(Mount("masked", f"/proc/{name}") for name in MASKED),
    Mount("masked", "/sys/firmware"),
    Mount("tmpfs", "/dev/shm", "shm", "size=64m,mode=1777,nosuid,nodev,noexec"),
    Mount("unmount", "/sys/fs/cgroup"),
    Mount("cgroup2", "/sys/fs/cgroup", "cgroup", "ro,nosuid,nodev,noexec"),
)
# A cgroup of version 2 is what there is; whether it has a memory controller is the machine's.
MAY = ("oom_kill", "rank_cgroups")
WORSE = ("namespaces", "kill_group", "shm")


def container(what: str, profile: str, user: int = 0, no_new_privs: bool = False) -> Cell:
    """Make a cell of a container."""
    source = seccomp.profile(profile)
    made = Environment(NAMESPACES, MOUNTS, user=user, no_new_privs=no_new_privs, profile=profile)
    return Cell(
        what,
        made,
        WORSE,
        MAY,
        python=interpreters.for_others,
        lacks=lambda: interpreters.lacks_for_others() or seccomp.lacks(),
        note=f"filter: {source['source']}, {source['version'][:18]}",
    )


CELLS = {
    "docker": container("Docker, root", "docker"),
    "docker_not_root": container("Docker, not root (`--user`)", "docker", OTHER),
    "docker_no_new_privs": container(
        "Docker, not root, `--security-opt no-new-privileges`", "docker", OTHER, True
    ),
    "podman": container("Podman, root", "podman"),
    "podman_not_root": container("Podman, not root", "podman", OTHER),
    "kubernetes_restricted": container(
        "Kubernetes, Pod Security Standard restricted", "kubernetes", OTHER, True
    ),
}
