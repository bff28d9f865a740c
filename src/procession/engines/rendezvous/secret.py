"""The key of the links between the launchers of a job.

Theory of operation. Links prove with every frame that both ends have the same key (see
`engines.wire`). Where there is a secret that the launchers share and others do not know, the key is
made of it and of the id of the job: so launchers of other jobs do not understand each other, even
where they use the same address.

Without a secret the key is made of the id and the user's number, and is no secret: whoever reaches
the port and knows or guesses both can join, as with torchrun, where no id is needed for that. Each
launcher says so. Nothing that comes from the network is unpickled in either case.

Where MUNGE vouches for users, the host draws a secret and gives it to them (see `munge`). It is
asked where `srun` has started the launchers, or where the user says so.

Rejected: to send a key at the first contact (whoever listens has it, too); to make the secret in
the home directory by itself (machines may share it or not, and nobody would know which holds).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
from collections.abc import Callable

from procession.engines.contract import EngineError
from procession.engines.rendezvous.terms import Terms
from procession.values.base import Record
from procession.values.errors import SpecError

TASKS = "SLURM_STEP_NUM_TASKS"  # of srun
VARIABLE = "PROCESSION_JOB_KEY"
LEAST = 16  # bytes: shorter ones can be guessed
HOW = f"{VARIABLE} on all machines shuts them out"


class Trust(Record):
    """How the links of a job prove that both ends belong to it.

    key: of all links, if this launcher is the host; of others, too, unless they learn it from the
    host. note: who could join, "" where only those can who have the secret. first: what the host
    sends first on each link. learns: reads that, and gives the key.
    """

    key: bytes
    note: str = ""
    first: bytes = b""
    learns: Callable[[socket.socket], bytes] | None = None


def find_trust(terms: Terms) -> Trust:
    """Find what the launchers share: a secret, or MUNGE. Raises SpecError and EngineError."""
    secret, job = take_secret(), terms.run_id
    if secret and terms.munge:
        raise SpecError(f"munge=1 does not go with a secret: unset {VARIABLE}")
    fault = ""
    by_default = terms.munge is None and not secret and os.environ.get(TASKS, "1") != "1"
    if terms.munge or by_default:
        try:
            return _trust_by_munge(job)
        except EngineError as e:  # Slurm may do without it; or it fails here alone
            if terms.munge:
                raise
            fault = f"MUNGE does not work here ({e}), so it vouches for nobody; "
    return Trust(link_key(secret, job), fault + say_who_may_join(secret, terms))


def _trust_by_munge(job: str) -> Trust:
    """Draw a secret in case that this launcher is the host. Raises EngineError."""
    from procession.engines.rendezvous.munge import Munge

    munge, drawn = Munge(), secrets.token_bytes(32)
    first = munge.seal(drawn, job)
    return Trust(
        link_key(drawn, job),
        first=first,
        learns=lambda sock: link_key(munge.receive(sock, job), job),
    )


def take_secret() -> bytes:
    """Give the shared secret, b"" where there is none. Ranks do not get it. Raises SpecError."""
    said = os.environ.pop(VARIABLE, "").encode()
    if said and len(said) < LEAST:
        raise SpecError(
            f"{VARIABLE} has {len(said)} bytes, and could be guessed: take {LEAST} or more, such "
            "as the output of `openssl rand -hex 32`"
        )
    return said


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
        f"no secret is set: everyone who reaches {terms.at} and knows the id {terms.run_id!r} can "
        f"join this job; {HOW} [P416]"
    )
