"""An environment as data: what a process is, has and lacks when the check runs in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Refusal:
    """A system call that fails with an error, always or by one argument.

    when: "" (always), "is one of", "is not one of", "is above", "has a bit of"; of the argument's
    lower 32 bits.
    """

    call: str
    error: str = "ENOSYS"
    argument: int = 0
    when: str = ""
    values: tuple[int, ...] = ()


@dataclass(frozen=True)
class Mount:
    """A mount.

    kind: a file system ("tmpfs", "proc", "cgroup2"), "bind", "read-only" (a mount that is there is
    changed), "unmount" (and all below), "masked" (nothing can be read there), "protected" (nothing
    can be written there). options: as for `mount -o`.
    """

    kind: str
    target: str
    source: str = "none"
    options: str = ""


@dataclass(frozen=True)
class Environment:
    """What differs from the process that makes it; {place} stands for the cell's own directory.

    namespaces: new ones (mount, pid, ipc, uts, cgroup). user: of whom, with the group of the same
    number. capabilities: the most that it and its children may have; None: as they are.
    profile: a filter of `profiles/`, with its capabilities. variables: None takes one away.
    """

    namespaces: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    user: int = 0
    capabilities: tuple[str, ...] | None = None
    no_new_privs: bool = False
    refusals: tuple[Refusal, ...] = ()
    profile: str = ""
    variables: Mapping[str, str | None] = field(default_factory=dict[str, str | None])

    def written(self, place: str) -> str:
        """Write it as JSON, for a cell's directory."""
        return json.dumps(asdict(self)).replace("{place}", place)


def read(text: str) -> Environment:
    """Read what `written` has written."""
    given: dict[str, Any] = json.loads(text)
    given["mounts"] = tuple(Mount(**each) for each in given["mounts"])
    given["refusals"] = tuple(Refusal(**each) for each in given["refusals"])
    return Environment(**given)
