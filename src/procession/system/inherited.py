"""What a process started by this thread inherits beside variables, streams and directory.

Two processes that a thread starts one after the other are alike only if these values are the same
both times. Most of them belong to a thread, so they are read from /proc for this thread, which
takes about 0.1 ms. Not read, because there is no cheap way: the I/O priority, the policy for NUMA
memory, the session's keyring, the slack of timers, securebits.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HERE = "/proc/thread-self"
RIGHTS = (b"Uid", b"Gid", b"Groups", b"CapInh", b"CapPrm", b"CapEff", b"CapBnd", b"CapAmb",
          b"NoNewPrivs", b"Seccomp", b"Seccomp_filters", b"THP_enabled",
          b"Speculation_Store_Bypass", b"SpeculationIndirectBranch", b"Mems_allowed")  # fmt: skip
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user", "uts")
LABEL = "attr/current"  # of a security module
# Which processes the kernel ends first when memory runs out; whether addresses are random.
FILES = ("oom_score_adj", "personality")


def rights() -> tuple[Any, ...]:
    """Give what a child may do: users, groups, capabilities, filters, label, namespaces, root."""
    lines = _read("status").splitlines()
    found = tuple(line for line in lines if line.partition(b":")[0] in RIGHTS)
    if not found:  # /proc is not there
        found = os.getresuid(), os.getresgid(), tuple(os.getgroups())
    return (*found, _read(LABEL), _namespaces(), _root())


def surroundings() -> tuple[Any, ...]:
    """Give where and how a child runs: cgroups, scheduling, and other values of the kernel."""
    policy = os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
    return (_read("cgroup"), policy, os.nice(0), *(_read(name) for name in FILES))


def _read(name: str) -> bytes:
    try:
        fd = os.open(f"{HERE}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 1 << 14)
    except OSError:
        return b""  # the kernel has no such module
    finally:
        os.close(fd)


def _namespaces() -> tuple[int, ...]:
    found: list[int] = []
    for name in NAMESPACES:
        try:
            found.append(os.stat(f"{HERE}/ns/{name}").st_ino)
        except OSError:
            found.append(0)  # an older kernel
    return tuple(found)


def _root() -> tuple[int, int]:
    try:
        root = os.stat("/")
    except OSError:
        return 0, 0
    return root.st_dev, root.st_ino
