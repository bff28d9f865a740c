"""The key of the links between the launchers of a job.

Theory of operation. Links prove with every frame that both ends have the same key (see
`engines.wire`). Where there is a secret that the launchers share and others do not know, the key is
made of it and of the id of the job: so launchers of other jobs do not understand each other, even
where they use the same address.

Without a secret the key is made of the id and the user's number, and is no secret: whoever reaches
the port and knows or guesses both can join, as with torchrun, where no id is needed for that. Each
launcher says so. Nothing that comes from the network is unpickled in either case.

Rejected: to send a key at the first contact (whoever listens has it, too); to make the secret in
the home directory by itself (machines may share it or not, and nobody would know which holds).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat

from procession.engines.rendezvous.terms import Terms
from procession.values.errors import SpecError

VARIABLE = "PROCESSION_JOB_KEY"
LEAST = 16  # bytes: shorter ones can be guessed
HOW = f"{VARIABLE}, or --rdzv-conf key_file=FILE, on all machines shuts them out"


def take_secret(terms: Terms) -> bytes:
    """Give the shared secret, b"" where there is none. Ranks do not get it. Raises SpecError."""
    said = os.environ.pop(VARIABLE, "")
    if terms.key_file:
        return _read(terms.key_file)
    if said and len(said.encode()) < LEAST:
        raise SpecError(
            f"{VARIABLE} has {len(said.encode())} bytes, and could be guessed: take {LEAST} or "
            "more, such as the output of `openssl rand -hex 32`"
        )
    return said.encode()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as f:
            mode = os.fstat(f.fileno()).st_mode
            secret = f.read(1 << 16).strip()
    except OSError as e:
        raise SpecError(f"key_file {path!r} cannot be read: {e.strerror}") from None
    if stat.S_ISREG(mode) and mode & stat.S_IWOTH:  # a secret of Kubernetes may be read by all
        raise SpecError(f"key_file {path!r} can be written by others: chmod 600 it")
    if len(secret) < LEAST:
        raise SpecError(f"key_file {path!r} has {len(secret)} bytes; take {LEAST} or more")
    return secret


def link_key(secret: bytes, run_id: str) -> bytes:
    """Make the key of the links."""
    whose = "" if secret else str(os.getuid())
    about = "\0".join(("procession rendezvous 1", run_id, whose))
    return hmac.digest(hashlib.sha256(secret).digest(), about.encode(), "sha256")


def say_who_may_join(secret: bytes, terms: Terms) -> str:
    """Say who could join, "" where only those can who have the secret."""
    if secret:
        return ""
    return (
        f"no secret is set: whoever reaches {terms.at} and knows the id {terms.run_id!r} could "
        f"join this job; {HOW}"
    )
