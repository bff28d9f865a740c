"""What is known of a launcher: how it is started, how it names a rank, and what it promises."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos.runner import ROOT

_BENCH = ROOT / ".venv-bench" / "bin" / "python"
# The interpreter that has the peers; `make chaos` sets .venv-bench up.
PYTHON = os.environ.get("CHAOS_PEERS") or (str(_BENCH) if _BENCH.exists() else sys.executable)
PROGRAMS = ROOT / "chaos" / "programs"
RANK = str(PROGRAMS / "peer_rank.py")
FILES = ("shared memory", "temporary files")  # what may be left and is no process
TORCH = "https://docs.pytorch.org/docs/stable"


@dataclass(frozen=True)
class Seen:
    """What was seen of one trial.

    code: the launcher's exit code, None if it had not ended. text: all that it wrote.
    truly: the ranks that failed, in the order in which they did. named: those that the launcher
    names as the first. ended: seconds until the launcher and its ranks had ended, None if they had
    not. left: what was there at seconds after the fault, such as {1: ["processes"], 10: []}.
    torn: lines of output that did not arrive whole.
    """

    code: int | None
    text: str
    truly: tuple[int, ...] = ()
    named: frozenset[int] = frozenset()
    ended: float | None = None
    left: Mapping[int, list[str]] = field(default_factory=dict[int, list[str]])
    torn: int = 0


@dataclass(frozen=True)
class Promise:
    """What a launcher promises for a kind of fault.

    words: its sentence, "" for none. source: where that is written. patience: seconds for which a
    trial looks at what is still there. checks: by what it is judged:
    "fails": an exit code that is not 0. "names": the rank that failed first, alone. "ends": it and
    its ranks, within `within` seconds. "empty": no process is there 1 s after the fault.
    "lines": all arrive whole.
    """

    words: str = ""
    source: str = ""
    checks: tuple[str, ...] = ()
    within: float = 5.0
    patience: float = 10.5

    def broken(self, seen: Seen, slow: float = 1.0) -> list[str]:
        """Give the checks that failed."""
        late = seen.ended is None or seen.ended > self.within * slow
        failed = {
            "fails": seen.code == 0,
            "names": seen.named != frozenset(seen.truly[:1]),
            "ends": late,
            "empty": bool({*seen.left.get(1, ())} - {*FILES}),
            "lines": bool(seen.torn),
        }
        return [check for check in self.checks if failed[check]]


NONE = Promise()


@dataclass(frozen=True)
class Peer:
    """A launcher.

    name: of its file. shown: in tables. argv: how it starts so many ranks, given the directory of
    the work and their number. named: reads from its output which ranks failed first.
    promises: by kind of fault. lacks: what is missing for it, "" for nothing.
    """

    name: str
    shown: str
    argv: Callable[[Path, int], list[str]]
    named: Callable[[str], frozenset[int]]
    promises: Mapping[str, Promise]
    lacks: Callable[[], str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext


@functools.cache
def lacks_module(name: str, package: str) -> str:
    """Tell what is missing if the peers' interpreter has no such module."""
    test = f"import importlib.util as u, sys; sys.exit(u.find_spec({name!r}) is None)"
    there = not subprocess.run([PYTHON, "-c", test], check=False).returncode
    return "" if there else f"{package} is not installed in the environment of {PYTHON}"


def beside(program: str) -> str:
    """Give a program of the peers' environment."""
    return str(Path(PYTHON).with_name(program))
