"""No descriptors, processes or memory are left, from the start on or later."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from typing import Any

from chaos import processes
from chaos.launchers import Launcher
from chaos.programs import scarce
from chaos.row import SLOW, Row, Trial

METHODS = ("forkserver", "spawn", "fork", "command")
LIMITS = {
    "descriptors": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "memory": resource.RLIMIT_AS,
}
# Some of these stand in a message that names the reason. Without memory, much may fail in C.
WORDS = {
    "descriptors": ("open files", "descriptor"),
    "processes": ("ulimit -u", "temporarily unavailable", "thread"),
    "memory": ("memory", "Memory", "thread", "SIGSEGV", "SIGABRT"),
}
# A user of no process but these has a limit of processes of its own; root has none.
AS_USER = ("setpriv", "--reuid", "{uid}", "--clear-groups",
           "--inh-caps=+dac_override,+dac_read_search",
           "--ambient-caps=+dac_override,+dac_read_search", "--")  # fmt: skip


def strike(trial: Trial) -> None:
    """Run a launcher that has too little of something, or take it from one of its processes."""
    chance, work = trial.chance, trial.place / "work"
    kinds = [k for k in LIMITS if k != "processes" or _may_be_others()]
    kind, method = chance.choice(kinds), chance.choice(METHODS)
    early = chance.random() < 0.4
    victim = "launcher" if early else chance.choice(("launcher", "forkserver", "rank 1"))
    after = chance.uniform(0, 0.6)
    value = -1
    if early:
        value = {
            "descriptors": chance.randrange(3, 60),
            "processes": chance.randrange(1, 10),
            "memory": chance.randrange(20 << 20, 120 << 20),
        }[kind]
    trial.do(f"{method}: no {kind}, {victim}, " + (f"{value}" if early else f"after {after:.3f} s"))
    argv = [sys.executable, scarce.__file__, method, str(LIMITS[kind]), str(value)]
    if kind == "processes":
        uid = 50_000 + trial.seed % 10_000
        argv[:0] = [word.format(uid=uid) for word in AS_USER]
        for path in (trial.place, *(trial.place / n for n in ("work", "tmp", "runtime"))):
            os.chown(path, uid, uid)
    launcher = Launcher(argv, work, {"XDG_CACHE_HOME": str(trial.place / "tmp" / "cache")})
    told = _Told(launcher)
    lowered: dict[int, tuple[int, int]] = {}
    if told.within(20) and not early:
        time.sleep(after)
        pid = _find(launcher, victim, method)
        if pid is not None:
            lowered = _lower(pid, kind, chance.uniform(0, 1))
    told.within(30)
    ended = told.lines[1] if len(told.lines) > 1 else {}
    for pid, usual in lowered.items():
        _limit(pid, LIMITS[kind], usual)
    (work / "lifted").touch()
    code = launcher.end(30)
    told.look()
    text = launcher.text()
    _judge(trial, kind, ended, told, text, code)
    left, _ = launcher.wait_gone(1 * SLOW)
    trial.must(not left, f"alive: {processes.named(left)}")
    shutil.rmtree(trial.place / "tmp" / "cache", ignore_errors=True)


def _judge(
    trial: Trial, kind: str, ended: dict[str, Any], told: _Told, text: str, code: int | None
) -> None:
    words = WORDS[kind]
    trial.must(code is not None, f"the launcher does not end: {text[-1500:]}")
    if not ended:
        trial.must(any(w in text for w in words), f"no reason: {text[-1500:]}")
        trial.count(f"{kind}: the launcher failed")
        return
    said = ended["said"]
    trial.took("until the end", ended["seconds"], scarce.SECONDS + scarce.GRACE + 1)
    if said:
        # What a script writes of its own failure is on the console alone.
        trial.must(any(w in text for w in words), f"no reason: {ended['kind']}: {said[:1500]}")
        trial.must(ended["kind"] != "GroupFailed" or "rank" in said, f"no rank: {said[:500]}")
    trial.count(f"{kind}: {ended['kind'] or 'went on'}")
    last = told.lines[2] if len(told.lines) > 2 else {}
    trial.must(last.get("again") == [0, 0], f"the next launch: {text[-1500:]}")
    if last:
        trial.must(last["threads"] == ["MainThread"], f"threads: {last['threads']}")
        trial.must(last["more"] == 0, f"{last['more']} descriptors more")


class _Told:
    """What a launcher has told, a line each."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.lines: list[dict[str, Any]] = []

    def look(self) -> None:
        """Read what there is."""
        whole = self.launcher.text().rpartition("\n")[0].splitlines()
        self.lines = [json.loads(line) for line in whole if line.startswith('{"')]

    def within(self, seconds: float) -> bool:
        """Wait for another line; tells whether it came, before the end."""
        had, deadline = len(self.lines), time.monotonic() + seconds * SLOW
        while len(self.lines) == had and time.monotonic() < deadline:
            over = self.launcher.process.poll() is not None
            self.look()
            if over:
                break
            time.sleep(0.005)
        return len(self.lines) > had


def _may_be_others() -> bool:
    return os.geteuid() == 0 and shutil.which("setpriv") is not None


def _find(launcher: Launcher, victim: str, method: str) -> int | None:
    if victim == "launcher":
        return launcher.pid
    server = launcher.forkserver(method)
    if victim == "forkserver" or server is None:
        return server
    ranks = [p for p in processes.children(server) if p in launcher.all()]
    return ranks[1] if len(ranks) > 1 else None


def _lower(pid: int, kind: str, share: float) -> dict[int, tuple[int, int]]:
    """Let a process have little more than it has; gives its former limit."""
    try:
        if kind == "descriptors":
            value = int(len(os.listdir(f"/proc/{pid}/fd")) * 1.2 * share)
        elif kind == "processes":
            value = int(8 * share)
        else:
            with open(f"/proc/{pid}/statm", encoding="ascii") as f:
                pages = int(f.read().split()[0])
            value = int(pages * resource.getpagesize() + (12 << 20) * share)
        usual = resource.prlimit(pid, LIMITS[kind])
        resource.prlimit(pid, LIMITS[kind], (value, usual[1]))
    except (OSError, IndexError):
        return {}  # it has ended
    return {pid: usual}


def _limit(pid: int, limit: int, usual: tuple[int, int]) -> None:
    try:
        resource.prlimit(pid, limit, usual)
    except OSError:
        pass  # it has ended


ROW = Row(
    fault="no descriptors, no processes or no memory are left, from the start on, or later for the "
    "launcher, the forkserver or a rank",
    holds="an error that says of what too little is left, and which rank it was; nothing left; the "
    "next launch works when there is enough again",
    full=200,
    trials=33,
    short=4,
    strike=strike,
    limit=120,
)
