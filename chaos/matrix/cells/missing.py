"""One thing of the kernel is missing: refused by a filter, as by an old kernel or a container."""

from __future__ import annotations

from chaos.matrix import seccomp
from chaos.matrix.cell import Cell
from chaos.matrix.environment import Environment, Mount, Refusal

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
NEW_USER = 0x10000000  # CLONE_NEWUSER
P_PIDFD = 3
# The first number of the key is the user's, who may not make a namespace without one of users.
NOBODY = 65534


def refused(what: str, *refusals: Refusal, worse: str, needed: bool = False, user: int = 0) -> Cell:
    """Make a cell with a filter."""
    made = Environment(refusals=refusals, user=user)
    return Cell(what, made, tuple(worse.split()), needed=needed, lacks=seccomp.lacks)


CELLS = {
    "no_pidfd_open": refused(
        "no `pidfd_open` (ENOSYS, before Linux 5.3)",
        Refusal("pidfd_open"),
        worse="pidfd_open pidfd_send_signal waitid namespaces kill_group",
    ),
    "pidfd_open_refused": refused(
        "`pidfd_open` is refused (EPERM)",
        Refusal("pidfd_open", "EPERM"),
        worse="pidfd_open pidfd_send_signal waitid namespaces kill_group",
    ),
    "no_pidfd_send_signal": refused(
        "no `pidfd_send_signal` (ENOSYS)",
        Refusal("pidfd_send_signal"),
        worse="pidfd_send_signal",
    ),
    "pidfd_send_signal_refused": refused(
        "`pidfd_send_signal` is refused (EPERM)",
        Refusal("pidfd_send_signal", "EPERM"),
        worse="pidfd_send_signal",
    ),
    "no_waitid_of_pidfd": refused(
        "no `waitid(P_PIDFD)` (EINVAL, before Linux 5.4)",
        Refusal("waitid", "EINVAL", 0, "is one of", (P_PIDFD,)),
        worse="waitid",
    ),
    "no_inotify": refused(
        "no inotify (ENOSYS)",
        Refusal("inotify_init1"),
        Refusal("inotify_init"),
        worse="inotify",
    ),
    "no_close_range": refused(
        "no `close_range` (ENOSYS, before Linux 5.9)",
        Refusal("close_range"),
        worse="close_range",
    ),
    "no_subreaper": refused(
        "no `prctl(PR_SET_CHILD_SUBREAPER)` (EINVAL)",
        Refusal("prctl", "EINVAL", 0, "is one of", (SUBREAPER,)),
        worse="subreaper",
        needed=True,
    ),
    "no_memfd_create": refused(
        "no `memfd_create` (ENOSYS)",
        Refusal("memfd_create"),
        worse="memfd_create",
        needed=True,
    ),
    "no_eventfd": refused(
        "no `eventfd` (ENOSYS)",
        Refusal("eventfd2"),
        worse="eventfd",
        needed=True,
    ),
    "no_proc": Cell(
        "no /proc",
        Environment(("mount",), (Mount("tmpfs", "/proc"),)),
        ("proc", "proc_children", "oom_kill", "namespaces", "kill_group", "control"),
        needed=True,
    ),
}
