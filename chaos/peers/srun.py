"""srun, on a Slurm cluster of one node."""

from __future__ import annotations

import re

from chaos import slurm
from chaos.peers.peer import NONE, PYTHON, RANK, Peer, Promise

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


PEER = Peer(
    name="srun",
    shown="srun (Slurm)",
    argv=lambda work, ranks: [
        *("srun", "-n", str(ranks), "--kill-on-bad-exit=1", "--label", PYTHON, RANK),
    ],
    named=_named,
    lacks=slurm.lacks,
    around=slurm.one_node,
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
