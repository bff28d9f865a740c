"""torch.multiprocessing.spawn."""

from __future__ import annotations

import re

from chaos.peers.peer import NONE, PROGRAMS, PYTHON, TORCH, Peer, Promise, lacks_module

_TOLD = re.compile(r"[Pp]rocess (\d+) terminated with")
_PAGE = f"{TORCH}/multiprocessing.html#torch.multiprocessing.spawn.spawn"
_KILLED = Promise(
    "If one of the processes exits with a non-zero exit status, the remaining processes are killed "
    "and an exception is raised with the cause of termination.",
    _PAGE,
    ("fails", "names", "ends"),
)


def _named(text: str) -> frozenset[int]:
    found = _TOLD.search(text)
    return frozenset({int(found[1])} if found else ())


PEER = Peer(
    name="mp_spawn",
    shown="`torch.multiprocessing.spawn`",
    argv=lambda work, ranks: [PYTHON, str(PROGRAMS / "peer_spawn.py"), str(ranks)],
    named=_named,
    lacks=lambda: lacks_module("torch", "torch"),
    promises={
        "fails": _KILLED,
        "two": _KILLED,
        "stubborn": _KILLED,
        "term": NONE,
        "twice": NONE,
        "killed": Promise(
            'A parent-death signal (SIGINT) "is set to ensure that non-daemonic child processes '
            'can terminate if their parent terminates before they do".',
            "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/multiprocessing/spawn.py",
            ("ends",),
        ),
        "output": NONE,
    },
)
