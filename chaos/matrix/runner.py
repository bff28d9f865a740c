"""Runs a cell: makes its directory, the check and doctor in its environment, and the verdict."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos import processes
from chaos.matrix import interpreters
from chaos.matrix.cell import BROKEN, NOT_HERE, Cell
from chaos.matrix.check import BESIDE, MAIN
from chaos.matrix.environment import Environment
from chaos.matrix.verdict import Verdict, judge

ROOT = Path(__file__).parent.parent.parent
LIMIT = 150  # seconds for a whole cell, of which most take ten
_NOTHING: dict[str, Any] = {"groups": {}}  # that doctor says
ENTER = (sys.executable, "-m", "chaos.matrix.enter")


@dataclass(frozen=True)
class Ran:
    """What a cell gave. checks: what the check said, line by line. python: its version."""

    verdict: Verdict
    checks: Sequence[Mapping[str, Any]] = ()
    python: str = ""


def run_cell(cell: Cell, only: Sequence[str] = ()) -> Ran:
    """Run a cell. only: the names of the checks, all if there are none."""
    lack = cell.lacks()
    if lack:
        return Ran(Verdict(NOT_HERE, (lack,), (), ()))
    with _Place(cell.environment.user) as place:
        python = cell.python() or sys.executable
        outside = place.run(Environment(), python, ["-m", "procession", "doctor", "--json"])
        inside = place.run(cell.environment, python, ["-m", "procession", "doctor", "--json"])
        checked = place.run(cell.environment, python, ["-m", "chaos.matrix.check", *only])
        left = place.left()
        for each in (outside, inside, checked):
            if each.stderr.startswith("not here: "):
                why = each.stderr.strip().removeprefix("not here: ")
                return Ran(Verdict(NOT_HERE, (why,), (), ()))
        told = place.scrubbed(checked.stdout)
        checks = [json.loads(line) for line in told.splitlines() if line[:1] == "{"]
        problems = [f"left: {processes.named(left)}"] if left else []
        wanted = [name for name in {**MAIN, **BESIDE} if not only or name in only]
        if [each["check"] for each in checks] != wanted:
            problems.append(f"the check ended: {checked.returncode}: {checked.stderr[-2000:]}")
        try:
            usual, doctor = json.loads(outside.stdout), json.loads(inside.stdout)
        except ValueError:
            said = f"doctor ended: {inside.returncode}: {inside.stderr[-2000:]}"
            return Ran(Verdict(BROKEN, (), (), (*problems, said)), checks)
        usual = _NOTHING if cell.bare else usual
        main = [each for each in checks if each["check"] in MAIN]
        beside = [each for each in checks if each["check"] in BESIDE]
        found = judge(cell, main, beside, doctor, usual)
        word = BROKEN if problems else found.word
        verdict = Verdict(word, found.said, found.beside, (*problems, *found.problems))
        return Ran(verdict, checks, doctor["groups"]["python"]["python"]["value"])


class _Place:
    """A directory of a cell's own: all that is run there, so that any user can read it."""

    def __init__(self, user: int) -> None:
        self._mark = uuid.uuid4().hex
        self.path = Path(tempfile.mkdtemp(prefix="matrix-", dir="/tmp"))
        self.path.chmod(0o755)
        for name in ("home", "tmp", "runtime"):
            made = self.path / name
            made.mkdir(mode=0o700)
            os.chown(made, user or os.getuid(), user or os.getgid())
        _copy_code(self.path / "code")

    def run(
        self, environment: Environment, python: str, words: Sequence[str]
    ) -> subprocess.CompletedProcess[str]:
        """Run an interpreter in an environment, to its end or that of the time it has."""
        given = environment.written(str(self.path))
        try:
            return subprocess.run(
                [*ENTER, given, python, *words],
                cwd=self.path / "code",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
                env=self._variables(),
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as e:
            said = (e.stdout or b"").decode(), (e.stderr or b"").decode()
            return subprocess.CompletedProcess([], 124, *said)

    def _variables(self) -> dict[str, str]:
        """Give the variables: few, so that nothing of this machine's shows."""
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self.path / "home"),
            "TMPDIR": str(self.path / "tmp"),
            "PYTHONPATH": str(self.path / "code"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            processes.MARK: self._mark,
        }

    def scrubbed(self, text: str) -> str:
        """Take out of a text what is another one each time."""
        text = text.replace(str(self.path), "/place")
        text = re.sub(r"\b(sleep)_[0-9a-f]{12}\b", r"\1_...", text)
        text = re.sub(r"\bpid \d+", "pid ...", text)
        return re.sub(r"procession_\d+_[^\s:]+", "procession_...", text)

    def left(self) -> list[int]:
        """Give what is left of the cell's processes, after a second."""
        return processes.wait_gone(self._mark, 1)[0]

    def __enter__(self) -> _Place:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in processes.marked(self._mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        processes.wait_gone(self._mark, 10)
        shutil.rmtree(self.path, ignore_errors=True)


def _copy_code(target: Path) -> None:
    ignore = shutil.ignore_patterns("__pycache__", "rows", "results")
    shutil.copytree(ROOT / "src" / "procession", target / "procession", ignore=ignore)
    shutil.copytree(ROOT / "chaos", target / "chaos", ignore=ignore)
    interpreters.copy_needed(target)


@functools.cache
def may_enter() -> str:
    """Say why this user cannot make environments; "" if it can."""
    if os.geteuid():
        return "only root may make such an environment"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "" if not done.returncode else "no namespaces of mounts here"
