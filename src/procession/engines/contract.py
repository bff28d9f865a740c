"""What an engine is: it gives nodes, and starts one node process on each.

An engine is no driver. It allocates nodes, starts node processes, and kills them as a last
resort. What happens to ranks is reported by node processes over their links (see `nodeprocess`),
never by an engine. Where its driver is, and the key of the job, a node process reads from
its environment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, MutableMapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol

from procession.prepare.work import Share
from procession.values.base import Value
from procession.values.errors import ProcessionError, SpecError

NAMES = ("slurm", "ray", "ssh")
NO_OPTIONS: Mapping[str, str] = MappingProxyType({})

# Variables that a node process reads, and removes before it starts anything.
INVITATION = "PROCESSION_AGENT"  # JSON: where its driver is
KEY = "PROCESSION_AGENT_KEY"  # hexadecimal; a secret
SLOT = "PROCESSION_AGENT_SLOT"  # its number, where an engine gives it; else SLURM_PROCID
# What the Python of a node process runs, see `own_python`.
NODE_PROCESS = "procession.engines.nodeprocess:command"
# Variables that stay, also for ranks, so that people on a node see which job they belong to.
JOB = "PROCESSION_JOB"  # the id of the run
DRIVER = "PROCESSION_DRIVER"  # the name of the driver's machine
ON_STDIN = "PROCESSION_AGENT_STDIN"  # "1": it ends when its standard input does

# The driver's directory, where the node process was started in a copy of it that the engine has
# made.
COPIED = "PROCESSION_AGENT_COPIED"


class EngineError(ProcessionError):
    """An engine could not do what was asked. The text is one line, with what to do next."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.split()))


class NodeCommand(Value):
    """What an engine starts in each slot.

    argv: the command. env: variables that it must find; they hold a key, and so must stand in no
    command line and no log.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]

    def __repr__(self) -> str:
        """Show no key: it could come into a log, or a traceback with the values of variables."""
        return f"NodeCommand(argv={self.argv!r}, env: {', '.join(self.env)})"


class Said(Value):
    """A line from an engine, for people."""

    text: str


class SlotGone(Value):
    """A slot has no node process any more, and none comes. slot: None for all. why: in words."""

    slot: int | None
    why: str


EngineEvent = Said | SlotGone


class Chosen(Value):
    """The engine for a request, what each node runs on it, and how many nodes there are."""

    engine: Engine
    share: Share
    nodes: int


class Engine(Protocol):
    """One way to get nodes.

    `start`, `replace`, `kill` and `close` are called one at a time, in a thread that is for
    the engine alone: they may block, but not for ever.
    """

    @property
    def name(self) -> str:
        """What it is called, for people and for `--engine`."""
        ...

    @property
    def slots(self) -> int:
        """How many node processes `start` starts: one for each node, and spare ones."""
        ...

    def check(self) -> None:
        """Look whether it can be used, before anything is started.

        Raises SpecError or EngineError.
        """

    def start(self, command: NodeCommand, tell: Callable[[EngineEvent], None]) -> None:
        """Have a node process started in each slot; returns when that is under way.

        tell: may be called from any thread, until `close` returns. Raises EngineError.
        """

    def replace(self, slot: int) -> None:
        """Have a node process started for a slot that has lost its own, on any node that is free.

        Raises EngineError if there is none.
        """

    def kill(self) -> None:
        """Have all node processes ended that are left, by force."""

    def close(self) -> None:
        """Give everything back; nothing that it started is left then."""


def choose(
    name: str,
    share: Share,
    nodes: int | None,
    spares: int = 0,
    options: Mapping[str, str] = NO_OPTIONS,
) -> Chosen:
    """Give the engine of this name for what each node is to run.

    nodes: how many are asked for; None: as many as the engine has. spares: how many more are held
    ready. options: of the engine's own. Raises SpecError, and EngineError for an engine that is
    not there.
    """
    if nodes is not None and (type(nodes) is not int or nodes < 1):
        raise SpecError(f"nnodes must be a count of 1 or more, not {nodes!r}")
    if name not in NAMES:
        raise SpecError(f"unknown engine {name!r}; choose {', '.join(NAMES[:-1])} or {NAMES[-1]}")
    module: Any = import_module(f"procession.engines.{name}.engine")
    return module.choose(share, nodes, spares, options)


class Invitation(Value):
    """What a node process has to know when it starts.

    at: addresses of the driver, as (host, port). key: shared with it. slot: this node process's.
    on_stdin: whether it ends with its standard input. copied: the driver's directory, if this node
    process was started in a copy of it, else "".
    """

    at: tuple[tuple[str, int], ...]
    key: bytes
    slot: int
    on_stdin: bool = False
    copied: str = ""

    def __repr__(self) -> str:
        """Show no key: it could come into a log, or a traceback with the values of variables."""
        return f"Invitation(at={self.at!r}, slot={self.slot})"

    def variables(self) -> dict[str, str]:
        """Give the variables for a node process, without its slot."""
        return {INVITATION: json.dumps({"at": self.at}), KEY: self.key.hex()}


def take_invitation(env: MutableMapping[str, str]) -> Invitation:
    """Read the variables, and remove them from the environment. Raises EngineError."""
    slot = env.pop(SLOT, None) or env.get("SLURM_PROCID", "0")
    text, key = env.pop(INVITATION, ""), env.pop(KEY, "")
    on_stdin, copied = env.pop(ON_STDIN, "") == "1", env.pop(COPIED, "")
    try:
        said: dict[str, Any] = json.loads(text)
        at = tuple((str(host), int(port)) for host, port in said["at"])
        return Invitation(at, bytes.fromhex(key), int(slot), on_stdin, copied)
    except (ValueError, TypeError, KeyError, OverflowError):
        raise EngineError(
            f"{INVITATION} does not say where the driver is: it is set by `procession run "
            "--engine`, not by hand"
        ) from None
