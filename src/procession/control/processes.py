"""The user's own processes, with what launchers wrote into their environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from procession.system.files import process_fields
from procession.system.identity import proc_is_ours
from procession.values.base import Value

VARIABLES = ("PROCESSION_RUN", "PROCESSION_LAUNCHER", "PROCESSION_JOB", "PROCESSION_DRIVER",
             "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
             "TORCHELASTIC_RUN_ID",
             "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
             "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID",
             "ACCELERATE_MIXED_PRECISION", "ACCELERATE_DYNAMO_BACKEND")  # fmt: skip


class Process(Value):
    """One process, as it was seen.

    start: in clock ticks since the machine started. cpu: seconds that it used. memory: resident
    bytes. words: its command line. env: of its variables, those of `VARIABLES`, as it was started
    with.
    """

    pid: int
    parent: int
    start: int
    cpu: float
    memory: int
    words: tuple[str, ...]
    env: Mapping[str, str]


def read_processes(root: str = "/proc") -> dict[int, Process]:
    """Give the processes of this user that can be looked at, by pid; zombies are left out."""
    found: dict[int, Process] = {}
    if root == "/proc" and not proc_is_ours():
        return found  # the pids there are not ours: a signal would reach others
    user = os.geteuid()
    for name in os.listdir(root):
        if not name.isdecimal():
            continue
        try:
            if os.stat(f"{root}/{name}").st_uid != user:
                continue
            process = read_process(int(name), root)
        except OSError:
            continue  # it is gone, or hides itself
        if process is not None:
            found[process.pid] = process
    return found


def read_process(pid: int, root: str = "/proc") -> Process | None:
    """Look at one process; None if it is gone or a zombie. Raises OSError."""
    fields = process_fields(pid, root)
    if len(fields) < 22 or fields[0] in (b"Z", b"X"):
        return None
    # A process that has set its own title has overwritten its command line.
    line = _read(f"{root}/{pid}/cmdline").rstrip(b"\0 ").decode(errors="replace")
    words = [word.rstrip() for word in line.split("\0")] if line else []
    try:
        env = parse_environment(_read(f"{root}/{pid}/environ"))
    except PermissionError:
        env = {}  # it has other privileges than this process
    return Process(
        pid=pid,
        parent=int(fields[1]),
        start=int(fields[19]),
        cpu=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        memory=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        words=tuple(words),
        env=env,
    )


def parse_environment(data: bytes) -> dict[str, str]:
    """Pick the known variables out of the environment in /proc."""
    found: dict[str, str] = {}
    for entry in data.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        text = name.decode(errors="replace")
        if equals and text in VARIABLES:
            found[text] = value.decode(errors="replace")
    return found


def _read(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read()


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
