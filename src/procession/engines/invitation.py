"""What a node process learns from its environment: where its driver is, and the key of the job."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any

from procession.engines.contract import COPIED, INVITATION, KEY, ON_STDIN, SLOT, EngineError
from procession.values.base import Value


class Invitation(Value):
    """What a node process has to know when it starts.

    at: addresses of the driver, as (host, port). key: shared with it. lease: seconds. slot: this
    node process's. on_stdin: whether it ends with its standard input. copied: the driver's
    directory, if this node process was started in a copy of it, else "".
    """

    at: tuple[tuple[str, int], ...]
    key: bytes
    lease: float
    slot: int
    on_stdin: bool = False
    copied: str = ""

    def __repr__(self) -> str:
        """Show no key: it could come into a log, or a traceback with the values of variables."""
        return f"Invitation(at={self.at!r}, lease={self.lease:g}, slot={self.slot})"

    def variables(self) -> dict[str, str]:
        """Give the variables for a node process, without its slot."""
        at = [list(each) for each in self.at]
        said = {"at": at, "lease": self.lease}
        return {INVITATION: json.dumps(said), KEY: self.key.hex()}


def take_invitation(env: MutableMapping[str, str]) -> Invitation:
    """Read the variables, and remove them from the environment. Raises EngineError."""
    slot = env.pop(SLOT, None) or env.get("SLURM_PROCID", "0")
    text, key = env.pop(INVITATION, ""), env.pop(KEY, "")
    on_stdin, copied = env.pop(ON_STDIN, "") == "1", env.pop(COPIED, "")
    try:
        said: dict[str, Any] = json.loads(text)
        at = tuple((str(host), int(port)) for host, port in said["at"])
        return Invitation(
            at,
            bytes.fromhex(key),
            float(said["lease"]),
            int(slot),
            on_stdin,
            copied,
        )
    except (ValueError, TypeError, KeyError, OverflowError):
        raise EngineError(
            f"{INVITATION} does not say where the driver is: it is set by `procession run "
            "--engine`, not by hand"
        ) from None
