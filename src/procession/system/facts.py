"""What two processes must have in common for the one to stand in for the other, as a table.

Theory of operation. An agent that waits for the next launch has inherited what the first caller
was, and its ranks are to be what the second caller is. Each row of `FACTS` is one thing that a
process passes on to its children, and how it is read. All rows must be equal. The caller reads them
for its own thread, the agent for itself.

One that waits within a launcher is compared by those that are read without the C library
(`read_plain`). One that is kept from one command to the next (`warm`) is compared when it is
chosen, and once more when it is taken: it may have been changed while it was kept.

Not in the table, because each rank has its own, kept or not: variables, streams, directory and
umask (they come with the job), session, process group and terminal (a rank makes a session, which
has no terminal). What an interpreter reads when it starts, and which signals are blocked and
ignored, is in the key of an agent (`agent.pool`).

Two things cannot be read. Filters of seccomp show their number only: those that this process has
beyond the first one of its namespace of pids are taken for its own, and equal to no other's. A
Landlock domain shows nothing: but of two processes that can each look into the other in /proc, none
is in a domain that the other is not in. So each looks for the other's directory.
"""

from __future__ import annotations

import os
import resource
import sys
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Read = Callable[[], str]

HERE, PROCESS = "/proc/thread-self", "/proc/self"  # most belong to a thread
SECCOMP = ("Seccomp", "Seccomp_filters")
_GET_TIMERSLACK, _GET_SECUREBITS = 30, 27
_CALLS = {  # numbers of system calls: get_mempolicy, ioprio_get, keyctl
    "x86_64": (239, 252, 250),
    "aarch64": (236, 31, 219),
}
LIMITS = {
    name[7:].lower(): value
    for name, value in sorted(vars(resource).items())
    if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"
}


def read_facts() -> dict[str, str]:
    """Read all rows for the calling thread."""
    return {name: read() for name, read in FACTS.items()}


def read_plain() -> tuple[str, ...]:
    """Read what needs no C library, for the calling thread."""
    return tuple(read() for read in PLAIN.values())


def obstacles(own: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Say which facts keep a process from passing on what is wanted. Pure."""
    found = [name for name in FACTS if own.get(name, "") != wanted.get(name, "")]
    if wanted.get(_FILTERS, "").endswith(_OWN) and _FILTERS not in found:
        found.append(_FILTERS)
    return found


# -- reading


def _file(name: str, place: str = HERE) -> str:
    try:
        with open(f"{place}/{name}", "rb", buffering=0) as f:
            return f.read().decode(errors="backslashreplace").strip("\0\n")
    except OSError:
        return ""  # the kernel has no such thing


def _status(*names: str, place: str = HERE) -> str:
    found = [line.split(":", 1) for line in _file("status", place).splitlines()]
    return " ".join(":".join((n, *v.split())) for n, v in found if n in names)


def _filters() -> str:
    """Give the filters of seccomp; marked if they may be this process's own."""
    own = _status(*SECCOMP)
    if own in ("", "Seccomp:0", "Seccomp:0 Seccomp_filters:0"):
        return own
    common = _status(*SECCOMP, place="/proc/1")
    return own if own == common and "filters" in own else f"{own}{_OWN}"


def _namespaces() -> str:
    try:
        names = sorted(os.listdir(f"{HERE}/ns"))
        return " ".join(f"{n}:{os.stat(f'{HERE}/ns/{n}').st_ino}" for n in names)
    except OSError:
        return ""  # closed to a program whose real and effective user differ


def _root() -> str:
    root = os.stat("/")
    return f"{root.st_dev} {root.st_ino}"


def _limit(number: int) -> Read:
    return lambda: " ".join(map(str, resource.getrlimit(number)))


def _scheduling() -> str:
    return f"{os.sched_getscheduler(0)} {os.sched_getparam(0).sched_priority}"


def _affinity() -> str:
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


def _call(which: int, *words: object) -> int:
    """Make a system call for which Python has no name; below 0 if there is no such call here.

    words: its arguments, numbers of 32 bits among them.
    """
    import ctypes

    numbers = _CALLS.get(os.uname().machine)
    if numbers is None or sys.maxsize < 1 << 32:
        return -1
    return int(ctypes.CDLL(None).syscall(ctypes.c_long(numbers[which]), *words))


def _memory_policy() -> str:
    """Give the policy for NUMA memory, and its nodes."""
    import ctypes

    mode, nodes = ctypes.c_int(0), (ctypes.c_ulong * 16)()
    most, zero = ctypes.c_ulong(8 * ctypes.sizeof(nodes)), ctypes.c_ulong(0)
    if _call(0, ctypes.byref(mode), nodes, most, zero, zero) < 0:
        return ""
    return f"{mode.value} {' '.join(f'{word:x}' for word in nodes).rstrip(' 0')}"


def _prctl(option: int) -> int:
    import ctypes

    return int(ctypes.CDLL(None).prctl(option, *[ctypes.c_ulong(0)] * 4))


_FILTERS, _OWN = "its filters (seccomp)", " of its own"
_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_OTHERS = ("THP_enabled", "Speculation_Store_Bypass", "SpeculationIndirectBranch")
# By their names in messages: how they are read. These are read without the C library, whose module
# takes a launch 2 ms to import.
PLAIN: dict[str, Read] = {
    "its users and groups": partial(_status, "Uid", "Gid", "Groups"),
    "its capabilities": partial(_status, *_CAPABILITIES),
    "no_new_privs": partial(_status, "NoNewPrivs"),
    _FILTERS: _filters,
    "its protection from speculation": partial(_status, *_OTHERS),
    "its security label": partial(_file, "attr/current"),
    "its namespaces": _namespaces,
    "its root directory": _root,
    "its log-in (audit)": lambda: f"{_file('loginuid')} {_file('sessionid')}",
    "its cgroup": partial(_file, "cgroup"),
    "its personality": partial(_file, "personality"),
    "its CPUs": _affinity,  # numerical libraries count them when they are imported
    "its nodes of memory": partial(_status, "Mems_allowed"),
    **{f"its limit {name}": _limit(number) for name, number in LIMITS.items()},
    "its scheduling": _scheduling,
    "its niceness": lambda: str(os.getpriority(os.PRIO_PROCESS, 0)),
    "its oom_score_adj": partial(_file, "oom_score_adj", PROCESS),
    "its coredump_filter": partial(_file, "coredump_filter", PROCESS),
}
FACTS: dict[str, Read] = {
    **PLAIN,
    "its securebits": lambda: str(_prctl(_GET_SECUREBITS)),
    # KEYCTL_GET_KEYRING_ID of the session's keyring, which is not made if there is none.
    "its session's keyring": lambda: str(_call(2, 0, -3, 0)),
    "its policy for NUMA memory": _memory_policy,
    "its priority of I/O": lambda: str(_call(1, 1, 0)),
    "its timer slack": lambda: str(_prctl(_GET_TIMERSLACK)),
}
