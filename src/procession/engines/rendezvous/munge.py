"""MUNGE, by which machines of a cluster know which user made a message, through its commands.

Theory of operation. Slurm itself trusts MUNGE: any user of a machine of the cluster can make a
credential; it shows the user's uid, and can be made so that only one uid can read it. So a launcher
draws a secret for each connection that it makes to the host, and sends it first, sealed for its own
uid, with the id of the job (see `engines.anteroom`). Both make the key of the link from it. The
launcher proves by the first frame that it has made the credential, and the host by its first one
that it can read it: both are of the same user. Who only copies a credential has no key.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping

from procession.engines.anteroom import introduction
from procession.engines.contract import EngineError
from procession.engines.slurm.processes import ask
from procession.values.base import cast

KIND = "procession rendezvous 1"
ANSWER_WITHIN = 10.0  # seconds for MUNGE's daemon
SOCKETS = ("/run/munge/munge.socket.2", "/var/run/munge/munge.socket.2")
UID = re.compile(r"^UID:.*\((\d+)\)$", re.MULTILINE)


class Munge:
    """MUNGE's commands. Raises EngineError if they are not installed."""

    def __init__(self) -> None:
        for program in ("munge", "unmunge"):
            if shutil.which(program) is None:
                raise EngineError(
                    f"{program} is not on the PATH: launchers need it to trust each other by MUNGE "
                    "(Debian package munge)"
                )
        self._options = _socket_option()
        self._uid = os.getuid()

    def introduce(self, job: str) -> tuple[bytes, bytes]:
        """Give the secret of a connection, and what to send on it first. Raises EngineError."""
        secret = secrets.token_bytes(32)
        return secret, introduction(self.seal({"kind": KIND, "job": job, "secret": secret.hex()}))

    def admit(self, credential: bytes, job: str) -> bytes:
        """Give the secret of a connection.

        Raises EngineError for one that is not to be believed, and ValueError.
        """
        said = self.open(credential)
        if (said.get("kind"), said.get("job")) != (KIND, job):
            raise EngineError("a credential of another job [P224]")
        return bytes.fromhex(str(said.get("secret")))

    def seal(self, facts: Mapping[str, object]) -> bytes:
        """Make a credential that this uid alone can read."""
        words = ("munge", *self._options, f"--restrict-uid={self._uid}")
        return ask(words, os.environ, json.dumps(facts), ANSWER_WITHIN).strip().encode()

    def open(self, credential: bytes) -> dict[str, object]:
        """Read one that this uid has made, for the first time. Raises EngineError."""
        text = credential.decode("ascii", "replace")
        said = ask(("unmunge", *self._options), os.environ, text, ANSWER_WITHIN)
        head, _, payload = said.partition("\n\n")
        uid = UID.search(head)
        if uid is None or int(uid[1]) != self._uid:
            raise EngineError("a credential of another user [P224]")
        try:
            facts = json.loads(payload)
        except ValueError:
            raise EngineError("a credential of another kind [P224]") from None
        if not isinstance(facts, dict):
            raise EngineError("a credential of another kind [P224]")
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
