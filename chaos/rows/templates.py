"""Warm runs: what is kept is killed or stopped, files change, limits are reached.

What is kept has imported an installed package of the list: a stand-in for one, which changes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from chaos import processes
from chaos.launchers import COMMAND
from chaos.processes import send
from chaos.row import SLOW, Row, Trial

NPROC = 2
PACKAGE = "einops"
STEPS = (
    *("nothing", "nothing", "a file changed", "a file changed", "changed in the same tick"),
    *("kept killed", "kept stopped", "socket removed", "none kept"),
    *("module hidden", "script changed"),
)
NEW = ("a file changed", "changed in the same tick", "module hidden", "script changed")


class _Tree:
    """A program, and a package that it imports; it prints the numbers that are in both."""

    def __init__(self, work: Path) -> None:
        self.installed, self.number = work / "site-packages", 0
        self.installed.mkdir()
        self.module, self.script = self.installed / f"{PACKAGE}.py", work / "script.py"
        self.of_script = self.of_module = 0
        self.write_module()
        self.write_script()

    def write_module(self) -> None:
        self.number += 1
        self.of_module = self.number
        self.module.write_text(f"import json\nNUMBER = 1{self.number:05}\n")

    def write_script(self) -> None:
        self.number += 1
        self.of_script = self.number
        self.script.write_text(
            f"import {PACKAGE}\nprint('numbers', {PACKAGE}.NUMBER, {self.number})\n"
        )

    def hide(self) -> None:
        """Put a package before the module."""
        package = self.installed / PACKAGE
        shutil.rmtree(package, ignore_errors=True)
        package.mkdir()
        self.module = package / "__init__.py"
        self.write_module()

    def wanted(self) -> str:
        return f"numbers {100_000 + self.of_module} {self.of_script}"


def strike(trial: Trial) -> None:
    """Run a program warm several times, with a fault before each run."""
    chance, work = trial.chance, trial.place / "work"
    tree, seen = _Tree(work), set[int]()
    try:
        for number in range(chance.randrange(3, 7)):
            what = chance.choice(STEPS) if number else "the first"
            trial.do(what)
            _run(trial, tree, what, seen)
    finally:
        for pid in seen:
            send(pid, signal.SIGCONT)
        done = _procession("warm", "stop")
        trial.must(done.returncode == 0, f"procession warm stop: {done.stdout}{done.stderr}")
        # A template whose socket was removed looks for it every five seconds.
        processes.wait_gone(os.environ[processes.MARK], 8 * SLOW, processes.children(os.getpid()))


def _procession(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    # Python itself believes compiled code of the same second and size.
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.run(
        [COMMAND, *words], env={**os.environ, **env}, capture_output=True, text=True, check=False,
        timeout=20 * SLOW, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def _run(trial: Trial, tree: _Tree, what: str, seen: set[int]) -> None:
    """Do something, and run the program: it has to give what is in its files now."""
    env = {"PROCESSION_WARM_MOST": "0"} if what == "none kept" else {}
    kept = _kept()
    seen |= {*kept}
    if what in ("a file changed", "changed in the same tick"):
        tree.write_module()
        if what == "changed in the same tick":
            tree.write_module()
    elif what == "module hidden":
        tree.hide()
    elif what == "script changed":
        tree.write_script()
    elif what in ("kept killed", "kept stopped") and kept:
        number = signal.SIGKILL if what == "kept killed" else signal.SIGSTOP
        send(trial.chance.choice(kept), number)
    elif what == "socket removed":
        for path in (trial.place / "runtime").glob("procession/.warm*"):
            path.unlink()
    began = time.monotonic()
    words = ("--warm", "-n", str(NPROC), "--preload", PACKAGE, str(tree.script))
    done = _procession("run", *words, PYTHONPATH=str(tree.installed), **env)
    trial.took("a run", time.monotonic() - began, 5.0)
    lines = [line[4:] for line in done.stdout.splitlines() if line[4:].startswith("numbers")]
    right = done.returncode == 0 and lines == [tree.wanted()] * NPROC
    trial.must(
        right, f"{what}: {lines}, not {tree.wanted()}: {done.returncode} {done.stderr[-600:]}"
    )
    cold = "starts cold" in done.stderr
    trial.must(cold or what not in NEW[:-1], f"{what}, and it did not start cold: {done.stderr}")
    trial.count(f"{what}: {'cold' if cold else 'warm'}")


def _kept() -> list[int]:
    """Give the pids of what is kept."""
    from procession.warm.templates import templates

    return [each.pid for each in templates()]


ROW = Row(
    fault="3 to 6 warm runs in a row; before each, the script or a file of a package that it "
    "imports is changed (also within a tick of the clock) or hidden, or what is kept is killed or "
    "stopped, or its socket is removed, or the limit of their number is reached",
    holds="never old code: each run gives what is in the files then; each run works",
    full=200,
    strike=strike,
    limit=120 * SLOW,
)
