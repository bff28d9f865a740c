"""honcho: the processes of a Procfile."""

from __future__ import annotations

import re
from pathlib import Path

from chaos.peers.peer import NONE, PYTHON, RANK, Peer, Promise, beside, lacks_module

_TOLD = re.compile(r"system +\| rank(\d)\.1 stopped \(rc=(?!0\))")
_PAGE = "https://honcho.readthedocs.io/en/latest/api.html"
_SOURCE = "https://github.com/nickstenning/honcho/blob/v2.0.0/honcho/manager.py"
_ENDS = Promise(
    "If one process terminates, all the others will be terminated by Honcho.",
    _PAGE,
    ("fails", "ends"),
)


def _argv(work: Path, ranks: int) -> list[str]:
    lines = [f"rank{rank}: exec {PYTHON} {RANK} {rank}\n" for rank in range(ranks)]
    (work / "Procfile").write_text("".join(lines))
    return [beside("honcho"), "start"]


def _named(text: str) -> frozenset[int]:
    found = _TOLD.search(text)
    return frozenset({int(found[1])} if found else ())


PEER = Peer(
    name="honcho",
    shown="honcho",
    argv=_argv,
    named=_named,
    lacks=lambda: lacks_module("honcho", "honcho"),
    promises={
        "fails": _ENDS,
        "two": _ENDS,
        "stubborn": Promise(
            "More than KILL_WAIT (5) seconds after that, it kills all remaining children.",
            _SOURCE,
            ("fails", "ends"),
            within=8.0,
        ),
        "term": Promise(
            "On SIGTERM and SIGINT, it terminates all processes that it manages.",
            _SOURCE,
            ("fails", "ends"),
        ),
        "twice": Promise(
            "On SIGTERM and SIGINT, it terminates all processes that it manages.",
            _SOURCE,
            ("fails", "ends"),
            within=8.0,
        ),
        "killed": NONE,
        "output": Promise(
            "Starts all the added processes and multiplexes their output onto the bound printer.",
            _PAGE,
            ("lines",),
        ),
    },
)
