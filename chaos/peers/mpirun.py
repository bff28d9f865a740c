"""mpirun of Open MPI, with ranks that do not call MPI."""

from __future__ import annotations

import re
import shutil

from chaos.peers.peer import NONE, PYTHON, RANK, Peer, Promise

_TOLD = re.compile(r"Process name: \[\[\d+,\d+\],(\d+)\]|process rank (\d+) with PID")
_PAGE = "https://www.open-mpi.org/doc/v4.1/man1/mpirun.1.php"
_FAILS = Promise(
    "If any process dies abnormally, mpirun will print out an error message and kill the rest of "
    "the MPI application; the return value of the rank that it first notices died will be "
    "returned.",
    _PAGE,
    ("fails", "names", "ends"),
)
_SIGNALS = Promise(
    "When it receives a SIGTERM and SIGINT, it sends all processes a SIGTERM, waits a small number "
    "of seconds, then sends all a SIGKILL.",
    _PAGE,
    ("fails", "ends"),
    within=10.0,
)


def _named(text: str) -> frozenset[int]:
    return frozenset(int(one or other) for one, other in _TOLD.findall(text))


PEER = Peer(
    name="mpirun",
    shown="mpirun (Open MPI)",
    argv=lambda work, ranks: [
        *("mpirun", "--oversubscribe", "--tag-output", "-n", str(ranks), PYTHON, RANK),
    ],
    named=_named,
    lacks=lambda: "" if shutil.which("mpirun") else "no mpirun (Debian package openmpi-bin)",
    env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
    promises={
        "fails": _FAILS,
        "two": _FAILS,
        "stubborn": Promise(_FAILS.words, _PAGE, _FAILS.checks, within=10.0),
        "term": _SIGNALS,
        "twice": _SIGNALS,
        "killed": NONE,
        "output": Promise(
            "`--tag-output`: tag each line of output with the rank of the process that generated "
            "it.",
            _PAGE,
            ("lines",),
        ),
    },
)
