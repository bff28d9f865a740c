"""What an engine is: it gives nodes, and starts one node process on each.

An engine is no driver. It allocates nodes, starts node processes, and kills them as a last
resort. What happens to ranks is reported by node processes over their links (see `nodeprocess`),
never by an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from procession.prepare.work import Share
from procession.values.base import Value
from procession.values.errors import ProcessionError

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
    """A slot has no node process any more. why: in words."""

    slot: int
    why: str


class EngineGone(Value):
    """No node process will come any more, and those that came go. why: in words."""

    why: str


EngineEvent = Said | SlotGone | EngineGone


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
