"""What launchers that were killed have left behind, and its removal.

When a launcher is gone, its agent ends all processes below it. Only where both are killed,
processes stay (docs/reliability.md, "Where it ends"), and a socket and a scratch directory with
them. A process belongs to the launcher whose mark is in its environment. Forks of the launcher
(start method "fork") show the launcher's own environment, which has no mark: they are not found.
Not touched are: processes with the mark of a dead launcher that are launchers themselves or serve a
living run, and processes in another namespace of pids, where marks mean nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from glob import escape, glob

from procession.control import ask
from procession.system.identity import lives, pid_of, start_of
from procession.system.processes import ProcessInfo, below, processes, send

AGENT_SECONDS = 2.0  # for an agent to end its ranks by itself
GRACE = 3.0  # seconds from SIGTERM to SIGKILL
REAP = 5.0  # seconds to vanish after SIGKILL


def left_behind(
    found: dict[int, ProcessInfo], alive: Callable[[str], bool | None], own: int
) -> list[ProcessInfo]:
    """Choose the processes of dead launchers. Pure.

    alive: tells whether the launcher of a mark lives, None for unknown. own: this process's pid.
    """
    marked = {p.pid: p.env["PROCESSION_LAUNCHER"] for p in found.values()
              if p.env.get("PROCESSION_LAUNCHER")}  # fmt: skip
    known = {mark: alive(mark) for mark in set(marked.values())}
    serving = {pid for pid, mark in marked.items() if known[mark] is not False}
    launchers = {pid_of(mark) for mark in known if known[mark] is not False}
    kept = below(serving, found) | serving | launchers | {own}
    for pid in list(kept):
        while pid in found and found[pid].parent not in kept:
            pid = found[pid].parent  # noqa: PLW2901
            kept.add(pid)
    dead = {pid for pid, mark in marked.items() if known[mark] is False} - kept
    return [found[pid] for pid in sorted((below(dead, found) | dead) - kept)]


def find_left() -> list[ProcessInfo]:
    """Find what is left, after agents had time to end it themselves."""
    until = time.monotonic() + AGENT_SECONDS
    while True:
        found = left_behind(read_processes(), lives, os.getpid())
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.05)


def end_processes(found: Sequence[ProcessInfo]) -> list[ProcessInfo]:
    """End them: SIGTERM, a few seconds, SIGKILL; gives those that are still there."""
    left = list(found)
    for number, seconds in ((signal.SIGTERM, GRACE), (signal.SIGKILL, REAP)):
        for each in left:
            send(each, number)
        left = _await(left, seconds)
    return left


def _await(left: list[ProcessInfo], seconds: float) -> list[ProcessInfo]:
    until = time.monotonic() + seconds
    while left and time.monotonic() < until:
        left = [each for each in left if start_of(each.pid) == each.start]
        if left:
            time.sleep(0.02)
    return left


def dead_sockets(*, remove: bool) -> list[str]:
    """Find the sockets at which nobody listens, and maybe remove them."""
    found: list[str] = []
    for name in ask.sockets():
        try:
            ask.Connection(name, 1.0).close()
        except ask.Dead:
            found.append(name)
            if remove:
                ask.remove(name)
        except ask.NotAnswered:
            continue
    return found


def dead_scratch(*, remove: bool) -> list[str]:
    """Find the scratch directories of dead launchers, and maybe remove them."""
    found: list[str] = []
    for place in dict.fromkeys([os.environ.get("TMPDIR") or "/tmp", "/tmp"]):  # noqa: S108 - only our own
        for path in glob(os.path.join(escape(place), "procession_*@*")):
            with suppress(OSError):
                seen = os.lstat(path)
                ours = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid()
                if ours and lives(path.rpartition("@")[2]) is False:
                    found.append(path)
                    if remove:
                        shutil.rmtree(path, ignore_errors=True)
    return found


def read_processes() -> dict[int, ProcessInfo]:
    """Give the processes of this user that can be looked at, by pid, with `words` and `env`.

    Zombies are left out.
    """
    found: dict[int, ProcessInfo] = {}
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
        found[pid] = seen.__replace__(words=words, env=env)
    return found


def _read(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/{name}", "rb") as f:
        return f.read().decode(errors="replace")
