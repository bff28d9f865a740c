"""MUNGE, by which machines of a cluster know which user made a message, through its commands."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping

from procession.engines.contract import EngineError
from procession.engines.slurm.processes import ask
from procession.values.typed import cast

SOCKETS = ("/run/munge/munge.socket.2", "/var/run/munge/munge.socket.2")
UID = re.compile(r"^UID:.*\((\d+)\)$", re.MULTILINE)


class Munge:
    """MUNGE's commands. Raises EngineError if they are not installed."""

    def __init__(self) -> None:
        for program in ("munge", "unmunge"):
            if shutil.which(program) is None:
                raise EngineError(
                    f"{program} is not on the PATH: tasks of srun need it to trust each other "
                    "(Debian package munge); without it, run this in an allocation (sbatch, "
                    "salloc), without srun before it"
                )
        self._options = _socket_option()
        self._uid = os.getuid()

    def seal(self, facts: Mapping[str, object]) -> bytes:
        """Make a credential that this uid alone can read."""
        words = ("munge", *self._options, f"--restrict-uid={self._uid}")
        return ask(words, os.environ, json.dumps(facts)).strip().encode()

    def open(self, credential: bytes) -> dict[str, object]:
        """Read one that this uid has made, for the first time. Raises EngineError."""
        said = ask(("unmunge", *self._options), os.environ, credential.decode("ascii", "replace"))
        head, _, payload = said.partition("\n\n")
        uid = UID.search(head)
        if uid is None or int(uid[1]) != self._uid:
            raise EngineError("a credential of another user")
        try:
            facts = json.loads(payload)
        except ValueError:
            raise EngineError("a credential of another kind") from None
        if not isinstance(facts, dict):
            raise EngineError("a credential of another kind")
        return cast("dict[str, object]", facts)


def _socket_option() -> list[str]:
    """Give what MUNGE's commands need where its socket is not in the usual place."""
    if any(os.path.exists(path) for path in SOCKETS):
        return []
    try:
        config = ask(("scontrol", "show", "config"), os.environ)
    except EngineError:
        return []
    match = re.search(r"^AuthInfo\s*=.*\bsocket=([^\s,]+)", config, re.MULTILINE)
    return [f"--socket={match[1]}"] if match else []
