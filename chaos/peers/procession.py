"""procession itself, judged in the same way."""

from __future__ import annotations

import re

from chaos.launchers import COMMAND
from chaos.peers.peer import RANK, Peer, Promise

_TOLD = re.compile(r"failed: (?:rank|ranks) ([\d, and-]+) ")
README = "README.md"


def _named(text: str) -> frozenset[int]:
    found = _TOLD.search(text)
    return frozenset(int(word) for word in re.findall(r"\d+", found[1])) if found else frozenset()


PEER = Peer(
    name="procession",
    shown="`procession run`",
    argv=lambda work, ranks: [
        *(COMMAND, "run", "-n", str(ranks), "--shutdown-timeout", "3", RANK),
    ],
    named=_named,
    lacks=lambda: "",
    promises={
        "fails": Promise(
            "The report names the rank that failed first. The first failure ends all ranks within "
            "milliseconds.",
            README,
            ("fails", "names", "ends", "empty"),
            within=1.0,
        ),
        "two": Promise(
            "The report names the rank that failed first.",
            README,
            ("fails", "names", "ends", "empty"),
            within=1.0,
        ),
        "stubborn": Promise(
            "SIGKILL after the grace period, one for the whole group.",
            "docs/reliability.md",
            ("fails", "names", "ends"),
        ),
        "term": Promise(
            "Exit code 128 + the signal; stopped once; nothing alive.",
            "docs/reliability.md",
            ("fails", "ends", "empty"),
        ),
        "twice": Promise(
            "Stopped once, killed on the second; nothing alive.",
            "docs/reliability.md",
            ("fails", "ends", "empty"),
            within=1.0,
        ),
        "killed": Promise(
            "When the launcher is gone, even by `kill -9`, so is every process that its ranks "
            "started.",
            README,
            ("ends", "empty"),
            within=1.0,
        ),
        "output": Promise(
            "Each line on the console has its rank in front and is never torn.", README, ("lines",)
        ),
    },
)
