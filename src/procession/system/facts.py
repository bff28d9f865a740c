"""What two processes must have in common for the one to stand in for the other, as a table.

Theory of operation. An agent that waits for the next launch has inherited what the first caller
was, and its ranks are to be what the second caller is. Each row of `FACTS` is one thing that a
process passes on to its children: how it is read, and how a process sets it for itself, if it can.

One that waits within a launcher must be equal in all that is read without the C library
(`read_plain`). For one that is kept from one command to the next (`warm`), what cannot be set must
be equal. The caller reads the table for its own thread, the agent for itself; afterwards all
rows are compared, so that a setting which the kernel did not carry out is noticed, too.

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
    import ctypes
    from collections.abc import Callable, Mapping

    Read = Callable[[], str]
    Set = Callable[[str], object]
    Settable = Callable[[str, str], bool]

HERE, PROCESS = "/proc/thread-self", "/proc/self"  # most belong to a thread
SECCOMP = ("Seccomp", "Seccomp_filters")
_ORDINARY = (0, 3)  # SCHED_OTHER, SCHED_BATCH: anybody may go from one to the other
_GET_TIMERSLACK, _SET_TIMERSLACK, _GET_SECUREBITS = 30, 29, 27
_CALLS = {  # numbers of system calls: get_mempolicy, ioprio_get, ioprio_set, keyctl
    "x86_64": (239, 252, 251, 250),
    "aarch64": (236, 31, 30, 219),
}
# Of these, the hard limit and all of the stack's must be equal; the soft limits of others are set.
_STACK = resource.RLIMIT_STACK
LIMITS = {
    name[7:].lower(): value
    for name, value in sorted(vars(resource).items())
    if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"
}


class Fact:
    """One row. name: in words, for a message. read: for the calling thread. set: for this process,
    from the value of another one; None if it must be equal. can: whether `set` can be expected to
    work without a privilege, from the own value to the wanted one. plain: it is read without the C
    library, whose module takes a launch 2 ms to import.
    """

    def __init__(
        self,
        name: str,
        read: Read,
        set: Set | None = None,
        can: Settable | None = None,
        *,
        plain: bool = True,
    ) -> None:
        self.name, self.read, self.set, self.can, self.plain = name, read, set, can, plain

    def agrees(self, own: str, wanted: str) -> bool:
        """Whether a process with the value `own` can pass on `wanted`."""
        return own == wanted or (
            self.set is not None and (self.can is None or self.can(own, wanted))
        )


def read_facts() -> dict[str, str]:
    """Read all rows for the calling thread."""
    return {fact.name: fact.read() for fact in FACTS}


def read_plain() -> tuple[str, ...]:
    """Read what needs no C library, for the calling thread."""
    return tuple(fact.read() for fact in FACTS if fact.plain)


def set_facts(wanted: Mapping[str, str]) -> None:
    """Set what differs and can be set, for this process, which has one thread.

    What does not work is seen when the table is read again.
    """
    for fact in FACTS:
        value = wanted.get(fact.name, "")
        if fact.set is not None and fact.read() != value:
            try:
                fact.set(value)
            except (OSError, ValueError):
                pass


def obstacles(
    own: Mapping[str, str], wanted: Mapping[str, str], *, exact: bool = False
) -> list[str]:
    """Say which facts keep a process from passing on what is wanted. Pure.

    exact: no more is set: all must be equal.
    """
    found: list[str] = []
    for fact in FACTS:
        mine, theirs = own.get(fact.name, ""), wanted.get(fact.name, "")
        if mine != theirs and (exact or not fact.agrees(mine, theirs)):
            found.append(fact.name)
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


def _lines(status: str, names: tuple[str, ...]) -> str:
    found = [line.split(":", 1) for line in status.splitlines()]
    return " ".join(":".join((n, *v.split())) for n, v in found if n in names)


def _status(*names: str) -> Read:
    def read() -> str:
        return _lines(_file("status"), names)

    return read


def _filters() -> str:
    """Give the filters of seccomp; marked if they may be this process's own."""
    own = _lines(_file("status"), SECCOMP)
    if own in ("", "Seccomp:0", "Seccomp:0 Seccomp_filters:0"):
        return own
    common = _lines(_file("status", "/proc/1"), SECCOMP)
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


def _limit(number: int, which: int) -> Read:
    return lambda: str(resource.getrlimit(number)[which])


def _stack() -> str:
    return " ".join(map(str, resource.getrlimit(_STACK)))


def _niceness() -> str:
    return str(os.getpriority(os.PRIO_PROCESS, 0))


def _scheduling() -> str:
    return f"{os.sched_getscheduler(0)} {os.sched_getparam(0).sched_priority}"


def _affinity() -> str:
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _call(which: int, *words: object) -> int:
    """Make a system call for which Python has no name; below 0 if there is no such call here.

    words: its arguments, numbers of 32 bits among them.
    """
    import ctypes

    numbers = _CALLS.get(os.uname().machine)
    if numbers is None or sys.maxsize < 1 << 32:
        return -1
    return int(_libc().syscall(ctypes.c_long(numbers[which]), *words))


def _memory_policy() -> str:
    """Give the policy for NUMA memory, and its nodes."""
    import ctypes

    mode, nodes = ctypes.c_int(0), (ctypes.c_ulong * 16)()
    most, zero = ctypes.c_ulong(8 * ctypes.sizeof(nodes)), ctypes.c_ulong(0)
    if _call(0, ctypes.byref(mode), nodes, most, zero, zero) < 0:
        return ""
    return f"{mode.value} {' '.join(f'{word:x}' for word in nodes).rstrip(' 0')}"


def _prctl(option: int, value: int = 0) -> int:
    import ctypes

    return int(_libc().prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))))


# -- setting


def _set_soft(number: int) -> Set:
    def set_limit(value: str) -> None:
        resource.setrlimit(number, (int(value), resource.getrlimit(number)[1]))

    return set_limit


def _set_niceness(value: str) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, int(value))


def _set_scheduling(value: str) -> None:
    policy, priority = map(int, value.split())
    os.sched_setscheduler(0, policy, os.sched_param(priority))


def _write(name: str) -> Set:
    def write(value: str) -> None:
        with open(f"/proc/self/{name}", "w", encoding="ascii") as f:
            f.write(f"0x{value}" if name == "coredump_filter" else value)

    return write


# -- whether it can be set


def _is_more(own: str, wanted: str) -> bool:
    return int(wanted or 0) >= int(own or 0)


def _is_ordinary(own: str, wanted: str) -> bool:
    return all(int(text.partition(" ")[0]) in _ORDINARY for text in (own, wanted))


def _is_plain_io(own: str, wanted: str) -> bool:
    """Whether neither is the real-time class, which needs a privilege."""
    return all(int(text) >= 0 and int(text) >> 13 != 1 for text in (own, wanted))


_FILTERS, _OWN = "its filters (seccomp)", " of its own"
_IDENTITY = ("Uid", "Gid", "Groups")
_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_OTHERS = ("THP_enabled", "Speculation_Store_Bypass", "SpeculationIndirectBranch")
FACTS = (
    Fact("its users and groups", _status(*_IDENTITY)),
    Fact("its capabilities", _status(*_CAPABILITIES)),
    Fact("its securebits", lambda: str(_prctl(_GET_SECUREBITS)), plain=False),
    Fact("no_new_privs", _status("NoNewPrivs")),
    Fact(_FILTERS, _filters),
    Fact("its protection from speculation", _status(*_OTHERS)),
    Fact("its security label", lambda: _file("attr/current")),
    Fact("its namespaces", _namespaces),
    Fact("its root directory", _root),
    Fact("its log-in (audit)", lambda: f"{_file('loginuid')} {_file('sessionid')}"),
    # KEYCTL_GET_KEYRING_ID of the session's keyring, which is not made if there is none.
    Fact("its session's keyring", lambda: str(_call(3, 0, -3, 0)), plain=False),
    Fact("its cgroup", lambda: _file("cgroup")),
    Fact("its personality", lambda: _file("personality")),
    Fact("its CPUs", _affinity),  # numerical libraries count them when they are imported
    Fact("its nodes of memory", _status("Mems_allowed")),
    Fact("its policy for NUMA memory", _memory_policy, plain=False),
    Fact("its limit of the stack", _stack),  # the C library reads it when a process begins
    *(
        Fact(f"its hard limit {name}", _limit(number, 1))
        for name, number in LIMITS.items()
        if number != _STACK
    ),
    *(
        Fact(f"its limit {name}", _limit(number, 0), _set_soft(number))
        for name, number in LIMITS.items()
        if number != _STACK
    ),
    Fact("its scheduling", _scheduling, _set_scheduling, _is_ordinary),
    Fact("its niceness", _niceness, _set_niceness, _is_more),
    Fact(
        "its priority of I/O",
        lambda: str(_call(1, 1, 0)),
        lambda value: _call(2, 1, 0, int(value)),
        _is_plain_io,
        plain=False,
    ),
    Fact(
        "its timer slack",
        lambda: str(_prctl(_GET_TIMERSLACK)),
        lambda value: _prctl(_SET_TIMERSLACK, int(value)),
        plain=False,
    ),
    *(
        Fact(f"its {name}", partial(_file, name, PROCESS), _write(name), can)
        for name, can in (("oom_score_adj", _is_more), ("coredump_filter", None))
    ),
)
