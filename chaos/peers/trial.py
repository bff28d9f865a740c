"""One trial of a launcher: the fault, what is seen of it, and the end of all that it left."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos import processes
from chaos.launchers import Launcher
from chaos.peers.kinds import KINDS, NPROC, Kind
from chaos.peers.peer import Peer, Promise, Seen
from chaos.programs import peer_rank
from chaos.row import SLOW, Trial

START = 60.0  # seconds until all ranks are there
LOOKS = (1, 10)  # seconds after the fault
LINE = re.compile(rb"<(\d):(\d+):((?:abcdefghij)+)>")
TO_A_PIPE = '{ "$@"; echo $? >code; } 2>&1 | cat >shown'


def strike_by(peer: Peer, kind: str) -> Callable[[Trial], None]:
    """Give what makes a trial of this launcher and this kind of fault."""
    return lambda trial: _strike(trial, peer, kind)


def _strike(trial: Trial, peer: Peer, name: str) -> None:
    kind = KINDS[name]
    work, plan = trial.place / "work", kind.plan(trial.chance)
    (work / "plan.json").write_text(json.dumps(plan))
    argv = peer.argv(work, NPROC)
    if "flood" in plan:
        argv = ["sh", "-c", TO_A_PIPE, "sh", *argv]
    trial.do(f"{peer.shown}: {plan}")
    before = _files(trial.place)
    launcher = Launcher(argv, work, peer.env)
    try:
        if "flood" in plan:
            seen = _flooded(launcher, work, plan["flood"])
        elif not _all_there(launcher, work):
            trial.problems.append(f"its ranks did not start: {launcher.text()[-1500:]}")
            return
        else:
            time.sleep(trial.chance.uniform(0, 0.3))
            at = _make_fault(launcher, work, kind, plan)
            promise = peer.promises[name]
            patience = max(promise.patience, promise.within * SLOW + 1)
            seen = _look(launcher, trial.place, at, before, patience)
            seen = dataclasses.replace(seen, named=peer.named(seen.text))
    finally:
        _end_all(launcher)
        for path in _files(trial.place) - before:
            _remove(path)
    _tell(trial, peer.promises[name], seen, fails=bool(plan.get("losers")))


def _all_there(launcher: Launcher, work: Path) -> bool:
    deadline = time.monotonic() + START * SLOW
    while not all((work / f"there.{rank}").exists() for rank in range(NPROC)):
        if time.monotonic() > deadline or launcher.process.poll() is not None:
            return False
        time.sleep(0.01)
    return True


def _make_fault(launcher: Launcher, work: Path, kind: Kind, plan: dict[str, Any]) -> float:
    """Let ranks fail, or send signals; gives when that was."""
    at = time.monotonic()
    for number, pause in kind.signals:
        at = time.monotonic()
        launcher.send(number)
        time.sleep(pause)
    if plan.get("losers"):
        at = time.monotonic() + 0.05  # until then, all have seen it
        (work / "go.new").write_text(str(at))
        os.rename(work / "go.new", work / "go")
    return at


def _look(launcher: Launcher, place: Path, at: float, before: set[Path], patience: float) -> Seen:
    """Watch what becomes of the launcher and of all that it has started.

    before: files that are not its own. patience: seconds until what is still there is ended by us.
    """
    ranks = {int(path.read_text()) for path in (place / "work").glob("there.?")}
    left: dict[int, list[str]] = {}
    ended: float | None = None
    while True:
        code = launcher.process.poll()
        there = launcher.all()
        passed = time.monotonic() - at
        own = code is None or launcher.pid in there or any(pid in ranks for pid in there)
        if ended is None and not own:
            ended = passed
        files: list[str] = []
        if code is not None:  # what a launcher that goes on needs is not left
            files = sorted({_named(path) for path in _files(place) - before})
        for look in LOOKS:
            if look not in left and passed >= look:
                left[look] = [*(_role(pid, launcher, ranks) for pid in there), *files]
        if passed > patience:
            break
        if ended is not None and not there and (not files or LOOKS[0] in left):
            break
        time.sleep(0.01)
    for look in LOOKS:
        left.setdefault(look, files)  # no process was there any more
    stamps = {
        float(path.read_text()): int(path.suffix[1:]) for path in (place / "work").glob("struck.?")
    }
    return Seen(
        code=code,
        text=launcher.text(),
        truly=tuple(stamps[at] for at in sorted(stamps)),
        ended=ended,
        left=left,
    )


def _flooded(launcher: Launcher, work: Path, kind: str) -> Seen:
    """Let the ranks write, and compare what has come with what they wrote."""
    began = time.monotonic()
    code = launcher.end(START * SLOW)
    took = time.monotonic() - began
    shown = work / "shown"
    data = shown.read_bytes() if shown.exists() else b""
    found = Counter((int(r), int(n), text) for r, n, text in LINE.findall(data))
    torn = 0  # or lost: of a line that comes in pieces, nobody can tell
    for rank in range(NPROC):
        for number, line in enumerate(peer_rank.lines(rank, kind)):
            torn += not found[rank, number, line[:-2].rpartition(b":")[2]]
    told = (work / "code").read_text() if (work / "code").exists() else ""
    return Seen(
        code=int(told) if told.strip() and code is not None else None,
        text=data[-2000:].decode(errors="replace"),
        ended=took if code is not None else None,
        torn=torn,
    )


def _role(pid: int, launcher: Launcher, ranks: set[int]) -> str:
    if pid == launcher.pid:
        return "the launcher"
    if pid in ranks:
        return "ranks"
    sleeps = processes.command_line(pid).startswith("sleep ")
    return "children of ranks" if sleeps else "other processes"


def _files(place: Path) -> set[Path]:
    """Give the temporary files, and what is in shared memory."""
    found = {*(place / "tmp").iterdir()}
    found |= {path for path in (place / "runtime").rglob("*") if not path.is_dir()}
    if "CHAOS_ALONE" in os.environ:  # nobody else's
        found |= {*Path("/dev/shm").iterdir()}
    return found


def _named(path: Path) -> str:
    return "shared memory" if path.parent == Path("/dev/shm") else "temporary files"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _end_all(launcher: Launcher) -> None:
    """End all that a launcher has left, also what starts again meanwhile."""
    deadline = time.monotonic() + 20
    while there := launcher.all():
        for pid in there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            break
        launcher.process.poll()
        time.sleep(0.005)
    launcher.end(0.1)


def _tell(trial: Trial, promise: Promise, seen: Seen, *, fails: bool) -> None:
    """Count what was seen."""
    broken = promise.broken(seen, SLOW)
    trial.do(f"exit code {seen.code}; named {sorted(seen.named)}, truly {seen.truly}")
    trial.do(f"ended after {seen.ended} s; left {seen.left}; lost or torn {seen.torn}")
    trial.count("kept" if not broken else "broken")
    for check in broken:
        trial.count(f"broken: {check}")
    if fails:
        trial.count(f"named: {_named_how(seen)}")
    if seen.ended is None:
        trial.count("not ended")
    else:
        trial.figures["until the end"] = seen.ended
    for look, there in seen.left.items():
        for what in {*there}:
            trial.count(f"after {look} s: {what}")
    if seen.torn:
        trial.counts["lines lost or torn"] = seen.torn


def _named_how(seen: Seen) -> str:
    """Say whether the rank that failed first is named as that."""
    first = frozenset(seen.truly[:1])
    if not seen.named:
        return "none"
    if seen.named == first:
        return "right"
    return "with others" if first < seen.named else "wrong"
