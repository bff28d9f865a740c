"""Root and another user; the first process of a namespace, as a container's command is."""

from __future__ import annotations

from chaos.matrix import interpreters, seccomp
from chaos.matrix.cell import Cell
from chaos.matrix.environment import Environment, Mount, Refusal

OTHER = 65534  # nobody: on every machine, with no home that is there
UNKNOWN = 4242424  # a number that no machine knows by name, as some clusters give to containers
NEW_USER = 0x10000000  # CLONE_NEWUSER
FIRST = ("mount", "pid", "ipc", "uts")
OWN_PROC = Mount("proc", "/proc", "proc", "nosuid,nodev,noexec")
# What depends on whether a machine lets this user make cgroups, or namespaces of users.
BY_MACHINE = ("kill_group", "rank_cgroups", "namespaces")


def other(what: str, made: Environment, *worse: str, note: str = "") -> Cell:
    """Make a cell of another user."""
    return Cell(
        what,
        made,
        worse,
        BY_MACHINE,
        python=interpreters.for_others,
        lacks=lambda: interpreters.lacks_for_others() or seccomp.lacks(),
        note=note,
    )


CELLS = {
    "not_root": other("not root", Environment(user=OTHER)),
    "unknown_user": other(
        "a user without a name, and no HOME (as on OpenShift)",
        Environment(user=UNKNOWN, variables={"HOME": None}),
        "state",
    ),
    "no_user_namespaces": other(
        "not root, and no namespaces of users (EPERM)",
        Environment(
            user=OTHER,
            refusals=(
                Refusal("unshare", "EPERM", 0, "has a bit of", (NEW_USER,)),
                Refusal("clone", "EPERM", 0, "has a bit of", (NEW_USER,)),
                Refusal("clone3", "ENOSYS"),
            ),
        ),
        "namespaces",
    ),
    "first_process": Cell(
        "root as PID 1 of a namespace", Environment(FIRST, (OWN_PROC,)), may=("oom_kill",)
    ),
    "first_process_not_root": other(
        "not root, as PID 1 of a namespace", Environment(FIRST, (OWN_PROC,), user=OTHER)
    ),
}
