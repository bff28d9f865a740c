"""loky: a pool of workers; a task stands for a rank."""

from __future__ import annotations

import re

from chaos.peers.peer import NONE, PROGRAMS, PYTHON, Peer, Promise, lacks_module

_TOLD = re.compile(r"task (\d+) failed:")
_CRASHES = Promise(
    "Handles crashes of worker processes without deadlocks, and sends back meaningful errors. "
    "(Which task made its worker crash is not promised; the program ends all by "
    "`shutdown(kill_workers=True)`.)",
    "https://github.com/joblib/loky/blob/master/README.md",
    ("fails", "ends"),
)


def _named(text: str) -> frozenset[int]:
    return frozenset(int(rank) for rank in _TOLD.findall(text))


PEER = Peer(
    name="loky",
    shown="loky",
    argv=lambda work, ranks: [PYTHON, str(PROGRAMS / "peer_loky.py"), str(ranks)],
    named=_named,
    lacks=lambda: lacks_module("loky", "loky"),
    promises={
        "fails": _CRASHES,
        "two": _CRASHES,
        "stubborn": _CRASHES,
        "term": NONE,
        "twice": NONE,
        "killed": NONE,
        "output": NONE,
    },
)
