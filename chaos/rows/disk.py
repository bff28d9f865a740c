"""The disk of the logs is full, read-only, breaks, hangs, has no inodes, or its directory goes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import procession
from chaos import fuse
from chaos.programs import diskwork
from chaos.row import SLOW, Row, Trial
from chaos.runner import ROOT

GRACE = 0.2
NPROC = 2
OF_TMPFS = ("full", "no inodes", "read-only", "removed", "replaced by a link")
OF_FUSE = {"has reached a quota": "EDQUOT", "breaks": "EIO", "hangs": "hang"}
WORDS = ("space", "read-only", "No such file", "disk", "Not a directory", "lost", "link",
         "quota", "Input/output error")  # fmt: skip
GIVEN_UP = 2.0  # seconds after which a forkserver is given up whose ranks hang in the kernel
SHOWN = 3.0  # seconds after which output is given up that hangs on the disk
REAP = 1.0  # seconds in which what was killed has to go; what hangs in the kernel does not


def lacks() -> str:
    """Tell whether this user may mount file systems."""
    done = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True, check=False,
    )  # fmt: skip
    return "" if not done.returncode else "this user may not mount"


def strike(trial: Trial) -> None:
    """Run a group whose disk fails before it starts, or while it runs."""
    chance, work = trial.chance, trial.place / "work"
    faults = (*OF_TMPFS, *OF_FUSE) if os.path.exists("/dev/fuse") else OF_TMPFS
    fault, early = chance.choice(faults), chance.random() < 0.3
    fails, tee = chance.random() < 0.5, chance.random() < 0.5
    early = early or fault == "read-only"  # the kernel refuses that while files are written
    early = early and fault != "hangs"  # a start waits for its directory, as any program would
    after = chance.uniform(0, 0.2)
    trial.do(
        f"{fault}, " + ("before the start" if early else f"{after:.3f} s after it")
        + ", files and console" * tee + ", rank 1 fails" * fails
    )  # fmt: skip
    disk = work / "disk"
    disk.mkdir()
    with (
        fuse.mounted(disk, work / "command")
        if fault in OF_FUSE
        else _mounted(disk, "2m" if fault == "full" else "64m")
    ):
        _run(trial, disk, fault, after, early=early, fails=fails, tee=tee)


@contextlib.contextmanager
def _mounted(disk: Path, size: str) -> Iterator[None]:
    _do("mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes=300", "none", str(disk))
    try:
        yield
    finally:
        _do("umount", "--lazy", str(disk))


def _do(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def _run(
    trial: Trial, disk: Path, fault: str, after: float, *, early: bool, fails: bool, tee: bool
) -> None:
    work = disk.parent
    std: dict[str, Any] = {"tee" if tee else "redirect": procession.Std.ALL}
    began = ended = time.monotonic()
    said, group, failed = "", None, None
    if early:
        _fail(disk, fault)
    try:
        group = procession.start(
            diskwork.write,
            args=(str(work), fails),
            nproc=NPROC,
            env={"PYTHONPATH": str(ROOT)},
            logs=procession.Logs(disk / "logs", **std),
            stop=procession.Stop(grace=GRACE, linger=GRACE, reap=REAP),
            learn=False,
        )
        time.sleep(after)
        if not early:
            _fail(disk, fault)
        time.sleep(after)
        (work / "end").touch()
        ended = time.monotonic()
        if fault == "hangs":
            group.stop()  # ranks wait for the disk, and do not come to their end
        else:
            group.wait(20 * SLOW)
    except procession.GroupFailed as e:
        failed, said = e, str(e)
    except (OSError, procession.ProcessionError) as e:
        failed, said = e, str(e)
    finally:
        if group is not None:
            group.kill()
    if group is None:
        trial.took("until the start failed", time.monotonic() - began, 5)
        trial.must(any(w in said for w in WORDS), f"the reason is not named: {said[:500]}")
        trial.count("not started, with the reason")
        return
    if fault == "hangs":
        most = GRACE + REAP + 5 + GIVEN_UP + (SHOWN if tee else 0)
        trial.took("until the end, the disk hangs", time.monotonic() - ended, most)
        told = [*group.notes, *group.losses]
        trial.must(bool(told), "the disk hangs, and nothing is said")
        trial.count("hangs, with a note")
        return
    trial.took("until the end", time.monotonic() - ended, GRACE + 2)
    gone = not early and fault in ("removed", "replaced by a link")
    _judge(trial, group, failed, said, fails=fails, gone=gone)


def _judge(trial: Trial, group: Any, failed: Any, said: str, *, fails: bool, gone: bool) -> None:
    if fails:
        named = failed is not None and "ArithmeticError" in said
        named = named or any(word in said for word in WORDS)
        trial.must(named, f"the failure is not named: {said[:500] or 'none'}")
    elif failed is not None:
        trial.must(any(w in said for w in WORDS), f"the reason is not named: {said[:500]}")
    losses = group.losses
    trial.count("failed" if failed is not None else "went on")
    if failed is None and sum(group.result().values):
        trial.must(bool(losses), f"ranks could not write, and nothing is said: {said}")
    trial.must(bool(losses) or not gone, "the files are gone, and nothing is said")
    trial.count("with a note of what is lost" if losses else "nothing lost")


def _fail(disk: Path, fault: str) -> None:
    logs = disk / "logs"
    if fault in OF_FUSE:
        (disk.parent / "command").write_text(OF_FUSE[fault])
    elif fault == "full":
        with open(disk / "filler", "wb", buffering=0) as f:
            _until_refused(lambda number: f.write(b"x" * 65536))
    elif fault == "no inodes":
        _until_refused(lambda number: (disk / f"filler.{number}").touch())
    elif fault == "read-only":
        _do("mount", "-o", "remount,ro", str(disk))
    elif fault == "removed":
        shutil.rmtree(logs, ignore_errors=True)
    elif logs.exists():
        logs.rename(disk / "aside")
        os.symlink(disk.parent, logs)


def _until_refused(call: Callable[[int], object]) -> None:
    try:
        for number in range(100_000):
            call(number)
    except OSError:
        pass


ROW = Row(
    fault="the disk of the logs is full, has no inodes, has reached a quota, breaks (EIO), hangs "
    "so that who writes cannot be killed, becomes read-only, or the log directory is removed or "
    "replaced by a link, before the start or while ranks write",
    holds="the run goes on, or fails with that reason; it ends at once, and within some 10 s "
    "where the disk does not answer; what is lost is said",
    full=150,
    trials=25,
    short=4,
    strike=strike,
    limit=60,
    lacks=lacks,
)
