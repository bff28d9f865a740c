"""torchrun."""

from __future__ import annotations

import re
from collections.abc import Mapping

from chaos.peers.peer import NONE, RANK, TORCH, Peer, Promise, beside, lacks_module

_TOLD = re.compile(r"Root Cause \(first observed failure\):.*?rank +: (\d+)", re.DOTALL)
_RUN = f"{TORCH}/elastic/run.html"
_ERRORS = f"{TORCH}/elastic/errors.html"
_KILLED = "On failures or membership changes ALL surviving workers are killed immediately."


def named(text: str) -> frozenset[int]:
    """Read the root cause."""
    return frozenset(int(rank) for rank in _TOLD.findall(text))


PROMISES: Mapping[str, Promise] = {
    "fails": Promise(_KILLED, _RUN, ("fails", "names", "ends")),
    "two": Promise(
        "Aggregates the error files for all children, and propagates the one with the smallest "
        "timestamp. (These ranks write none; its report names a `first observed failure`.)",
        _ERRORS,
        ("fails", "names", "ends"),
    ),
    "stubborn": Promise(
        "`--shutdown-timeout`: seconds to wait for graceful shutdown of worker processes before "
        "sending SIGKILL.",
        _RUN,
        ("fails", "names", "ends"),
        patience=36.0,  # without it, it waits for 30 s
    ),
    "term": Promise(
        "`--signals-to-handle`: SIGTERM, SIGINT, SIGHUP, SIGQUIT are handled and forwarded to "
        "subprocesses.",
        _RUN,
        ("fails", "ends"),
    ),
    "twice": Promise(
        "`--signals-to-handle`: SIGTERM, SIGINT, SIGHUP, SIGQUIT are handled and forwarded to "
        "subprocesses; SIGKILL after `--shutdown-timeout`.",
        _RUN,
        ("fails", "ends"),
        within=6.0,
    ),
    "killed": NONE,
    "output": Promise(
        "`--tee`: tee std streams into a log file and also to console.", _RUN, ("lines",)
    ),
}

PEER = Peer(
    name="torchrun",
    shown="torchrun",
    argv=lambda work, ranks: [
        *(beside("torchrun"), "--nproc-per-node", str(ranks), "--tee", "3"),
        *("--shutdown-timeout", "3", "--log-dir", str(work / "logs"), RANK),
    ],
    named=named,
    lacks=lambda: lacks_module("torch", "torch"),
    promises=PROMISES,
)
