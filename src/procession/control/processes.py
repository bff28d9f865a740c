"""The user's own processes, with their command lines and environments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from procession.system.processes import processes
from procession.values.base import Value


class Process(Value):
    """One process, as it was seen.

    start: in clock ticks since the machine started. memory: resident bytes. words: its command
    line. env: the variables with which it was started.
    """

    pid: int
    parent: int
    start: int
    memory: int
    words: tuple[str, ...]
    env: Mapping[str, str]


def read_processes() -> dict[int, Process]:
    """Give the processes of this user that can be looked at, by pid; zombies are left out."""
    found: dict[int, Process] = {}
    for pid, seen in processes().items():
        try:
            if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                continue
            # A process that has set its own title has overwritten its command line.
            line = _read(pid, "cmdline").rstrip("\0 ")
            words = tuple(word.rstrip() for word in line.split("\0")) if line else ()
            entries = (entry.partition("=") for entry in _read(pid, "environ").split("\0"))
            env = {name: value for name, equals, value in entries if equals}
        except OSError:
            continue  # it is gone, or has other privileges than this process
        memory = seen.pages * os.sysconf("SC_PAGE_SIZE")
        found[pid] = Process(pid, seen.parent, seen.start, memory, words, env)
    return found


def _read(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/{name}", "rb") as f:
        return f.read().decode(errors="replace")


def ancestors(pid: int, processes: Mapping[int, Process]) -> list[int]:
    """Give the pids above a process, as far as they are known, the nearest first."""
    found: list[int] = []
    while pid in processes and processes[pid].parent and processes[pid].parent not in found:
        pid = processes[pid].parent
        found.append(pid)
    return found


def below(pids: Iterable[int], processes: Mapping[int, Process]) -> set[int]:
    """Give these processes and all that descend from them."""
    wanted = set(pids)
    return {p for p in processes if p in wanted or wanted.intersection(ancestors(p, processes))}
