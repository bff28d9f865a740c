"""srun, on a Slurm cluster of one node, which is started as the tests of clusters start theirs."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from chaos.peers.peer import NONE, PYTHON, RANK, Peer, Promise
from chaos.runner import ROOT

_TOLD = re.compile(r"srun: error: \S+: tasks? ([\d,-]+): (?!Terminated)")
_PAGE = "https://slurm.schedmd.com/srun.html"
_BAD_EXIT = "`--kill-on-bad-exit`: terminate a step if any task exits with a non-zero exit code."


def _named(text: str) -> frozenset[int]:
    found = _TOLD.search(text)
    ranks: set[int] = set()
    for part in found[1].split(",") if found else ():
        low, _, high = part.partition("-")
        ranks |= {*range(int(low), int(high or low) + 1)}
    return frozenset(ranks)


def _clusters() -> Any:
    """Give the module of the tests that starts clusters."""
    if str(ROOT / "tests") not in sys.path:
        sys.path.append(str(ROOT / "tests"))
    return import_module("cluster.slurmcluster")


def _lacks() -> str:
    try:
        clusters = _clusters()
    except ImportError as e:
        return f"the tests' extra is not installed: {e}"
    missing = clusters.missing_programs()
    return f"no {', '.join(missing)} (Debian packages slurm-wlm and munge)" if missing else ""


@contextlib.contextmanager
def _around() -> Iterator[None]:
    """Start a cluster, and let what is started in the meantime find it."""
    cluster = _clusters().SlurmCluster(1)
    before = dict(os.environ)
    try:
        cluster.start()
        os.environ.update(cluster.env)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        cluster.stop()


PEER = Peer(
    name="srun",
    shown="srun (Slurm)",
    argv=lambda work, ranks: [
        *("srun", "-n", str(ranks), "--kill-on-bad-exit=1", "--label", PYTHON, RANK),
    ],
    named=_named,
    lacks=_lacks,
    around=_around,
    promises={
        "fails": Promise(_BAD_EXIT, _PAGE, ("fails", "ends")),
        "two": Promise(_BAD_EXIT, _PAGE, ("fails", "ends")),
        "stubborn": Promise(
            f"{_BAD_EXIT} SIGKILL follows after `KillWait`, here 5 s.",
            _PAGE,
            ("fails", "ends"),
            within=10.0,
        ),
        "term": Promise(
            "Signals sent to the srun command are automatically forwarded to the tasks.",
            _PAGE,
            ("ends",),
        ),
        "twice": Promise(
            "If <control-c> is entered twice within one second, SIGINT will be sent to all tasks, "
            "and a termination sequence of SIGCONT, SIGTERM, and SIGKILL.",
            _PAGE,
            ("ends",),
            within=10.0,
        ),
        "killed": NONE,
        "output": Promise(
            "`--label`: prepend task number to lines of stdout/err.", _PAGE, ("lines",)
        ),
    },
)
