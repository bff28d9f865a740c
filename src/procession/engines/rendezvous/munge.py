"""MUNGE, by which machines of a cluster know which user made a message, through its commands.

Theory of operation. Slurm itself trusts MUNGE: any user of a machine of the cluster can make a
credential; it shows the user's uid, and can be made so that only one uid can read it. So the host
draws a secret for the job, and sends it first on each connection, sealed for its own uid, with the
id of the job. Both ends make the key of the link from it. The host proves by the first frame that
it has made the credential, and the launcher by its first one that it can read it: both are of the
same user. Who only copies a credential has no key. So a credential that others have read before, or
that is old, is as good as a new one.

    introduction: 8 bytes magic, length of the credential (2 bytes), the credential
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket

from procession.engines.contract import EngineError
from procession.engines.slurm.processes import ask

MAGIC = b"PRCSSN\x00I"
KIND = "procession rendezvous 2"
ANSWER_WITHIN = 10.0  # seconds for MUNGE's daemon
SOCKETS = ("/run/munge/munge.socket.2", "/var/run/munge/munge.socket.2")
UID = re.compile(r"^UID:.*\((\d+)\)$", re.MULTILINE)
READABLE = (0, 15, 16, 17)  # exit codes of unmunge: also expired, not valid yet, read before


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

    def seal(self, secret: bytes, job: str) -> bytes:
        """Give an introduction, of which this uid alone can read the secret. Raises EngineError."""
        words = ("munge", *self._options, f"--restrict-uid={self._uid}")
        said = json.dumps([KIND, job, secret.hex()])
        credential = ask(words, os.environ, said, ANSWER_WITHIN).strip().encode()
        return MAGIC + len(credential).to_bytes(2, "big") + credential

    def receive(self, sock: socket.socket, job: str) -> bytes:
        """Read an introduction; gives the secret. Raises EngineError and OSError."""
        head = _read(sock, len(MAGIC) + 2)
        if not head.startswith(MAGIC):
            raise EngineError("what listens there does not know MUNGE, or has no key of this job")
        return self.open(_read(sock, int.from_bytes(head[-2:], "big")), job)

    def open(self, credential: bytes, job: str) -> bytes:
        """Give the secret in a credential that this uid has made for a job. Raises EngineError."""
        text = credential.decode("ascii", "replace")
        words = ("unmunge", *self._options)
        said = ask(words, os.environ, text, ANSWER_WITHIN, readable=READABLE)
        head, _, payload = said.partition("\n\n")
        uid = UID.search(head)
        if uid is None or int(uid[1]) != self._uid:
            raise EngineError("a credential of another user [P224]")
        try:
            kind, of_job, secret = json.loads(payload)
            if (kind, of_job) == (KIND, job):
                return bytes.fromhex(secret)
        except (ValueError, TypeError):
            pass
        raise EngineError("a credential of another job [P224]")


def _read(sock: socket.socket, count: int) -> bytes:
    """Read so many bytes, and none of what comes after them; fewer at the end."""
    data = b""
    while len(data) < count and (more := sock.recv(count - len(data))):
        data += more
    return data


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
