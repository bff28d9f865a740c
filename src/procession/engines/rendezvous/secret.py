"""The key of the links between the launchers of a job.

Theory of operation. Links prove with every frame that both ends have the same key (see
`engines.wire`). Where there is a secret that the launchers share and others do not know, the key is
made of it and of the id of the job: so launchers of other jobs do not understand each other, even
where they use the same address.

Without a secret the key is made of the id and the user's number, and is no secret: whoever reaches
the port and knows or guesses both can join, as with torchrun, where no id is needed for that. Each
launcher says so. Nothing that comes from the network is unpickled in either case.

Where MUNGE vouches for users, each connection has a secret of its own (see `munge`). It is asked
where `srun` has started the launchers, or where it is asked for.

Rejected: to send a key at the first contact (whoever listens has it, too); to make the secret in
the home directory by itself (machines may share it or not, and nobody would know which holds).
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable

from procession.engines.anteroom import Admits
from procession.engines.contract import EngineError
from procession.engines.rendezvous.terms import Terms
from procession.values.base import Record
from procession.values.errors import SpecError

TYPE_CHECKING = False  # MUNGE's part is imported where it may be used
if TYPE_CHECKING:
    from procession.engines.rendezvous.munge import Munge

TASKS = "SLURM_STEP_NUM_TASKS"  # of srun
VARIABLE = "PROCESSION_JOB_KEY"
LEAST = 16  # bytes: shorter ones can be guessed
HOW = f"{VARIABLE} on all machines shuts them out"


class Trust(Record):
    """How the links of a job prove that both ends belong to it.

    key: of all links. note: who could join, "" where only those can who have the secret.
    introduces: where each link has a key of its own, gives one, and what to send first. admits: the
    other side of that.
    """

    key: bytes
    note: str = ""
    introduces: Callable[[], tuple[bytes, bytes]] | None = None
    admits: Admits | None = None


def find_trust(terms: Terms) -> Trust:
    """Find what the launchers share: a secret, or MUNGE. Raises SpecError and EngineError."""
    secret, job = take_secret(), terms.run_id
    if secret and terms.munge:
        raise SpecError(f"munge=1 does not go with a secret: unset {VARIABLE}")
    munge, fault = (None, "") if secret else _find_munge(terms.munge)
    if munge is None:
        return Trust(link_key(secret, job), fault + say_who_may_join(secret, terms))

    def introduces() -> tuple[bytes, bytes]:
        drawn, words = munge.introduce(job)
        return link_key(drawn, job), words

    def admits(words: bytes) -> bytes:
        return link_key(munge.admit(words, job), job)

    return Trust(b"", introduces=introduces, admits=admits)


def _find_munge(wanted: bool | None) -> tuple[Munge | None, str]:
    """Give MUNGE where it is to be used; else why it does not work.

    wanted: None where nobody has said it. Raises EngineError where MUNGE is asked for and fails.
    """
    if not (wanted or (wanted is None and os.environ.get(TASKS, "1") != "1")):
        return None, ""
    from procession.engines.rendezvous.munge import Munge

    try:
        munge = Munge()
        munge.seal({})  # a daemon that does not run is told of now, not when nobody has come
    except EngineError as e:  # Slurm may do without it; or it fails here alone, which must be told
        if wanted:
            raise
        return None, f"MUNGE does not work here ({e}), so it vouches for nobody; "
    return munge, ""


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
        f"no secret is set: whoever reaches {terms.at} and knows the id {terms.run_id!r} could "
        f"join this job; {HOW} [P416]"
    )
