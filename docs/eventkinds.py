"""Every kind of event, and what it tells: the one table, from which events.schema.json is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from procession.values.base import Value

FILE = Path(__file__).with_name("events.schema.json")
SCHEMA = "https://json-schema.org/draft/2020-12/schema"


class Kind(Value):
    """A kind of event. always, sometimes: the names of its facts.

    of_rank: whether it happened to a rank, or to the whole group.
    """

    meaning: str
    of_rank: bool
    always: tuple[str, ...] = ()
    sometimes: tuple[str, ...] = ()


_COUNT = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string"}
_WORDS = {"type": "array", "items": {"type": "string"}}
_SIGNAL = {"type": "integer", "minimum": 1, "maximum": 64}

# What all events have; and facts, which some kinds have.
COMMON: dict[str, tuple[dict[str, Any], str]] = {
    "kind": (_TEXT, "what happened"),
    "attempt": (_COUNT, "which life of the group, from 0"),
    "at": (_COUNT, "when, in nanoseconds of the machine's monotonic clock"),
    "time": ({"type": "number"}, "the same in seconds since 1970"),
    "detail": (_TEXT, "what else is known, in words"),
}
OF_RANK: dict[str, tuple[dict[str, Any], str]] = {
    "rank": (_COUNT, "the rank on this machine (its local rank; in a job, its rank)"),
    "pid": ({"type": "integer", "minimum": 1}, "its process, where it has one"),
}
FACTS: dict[str, tuple[dict[str, Any], str]] = {
    "name": (_TEXT, "the group's name"),
    "run": (_TEXT, "the name of this run, which no other has"),
    "program": (
        {"enum": ["command", "script", "module", "function"]},
        "what rank 0 runs",
    ),
    "words": (_WORDS, "its command line, or the function's name; secrets are masked"),
    "nproc": ({"type": "integer", "minimum": 1}, "how many ranks the group has"),
    "node": (_COUNT, "which machine of the job this is"),
    "nodes": ({"type": "integer", "minimum": 1}, "how many machines the job has"),
    "first": (_COUNT, "the number that the group's rank 0 has in the whole job"),
    "restarts": (_COUNT, "how many times the group may start again in all"),
    "launcher": ({"type": "integer", "minimum": 1}, "the launcher's process"),
    "sizes": (
        {"type": "array", "items": {"type": "integer", "minimum": 1}},
        "how many ranks each machine of the job has",
    ),
    "ok": ({"type": "boolean"}, "whether the program came to a good end"),
    "ended": (
        {"enum": ["finished", "failed", "stopped", "lost"]},
        "by itself, well or not, or ended by the group",
    ),
    "outcome": (_TEXT, "how it ended: the name of a member of procession.Outcome, in lower case"),
    "exit_code": ({"type": "integer", "minimum": 0, "maximum": 255}, "its exit code"),
    "signal": (_SIGNAL, "the number of the signal that was sent, or that ended it"),
    "core": ({"type": "boolean"}, "whether it dumped core"),
    "cpu_seconds": ({"type": "number", "minimum": 0}, "CPU time of it and what it waited for"),
    "peak_memory": (_COUNT, "the most memory that it had, in bytes"),
    "out_of_memory": ({"type": "boolean"}, "for SIGKILL, of a child as well: was it memory"),
    "type": (_TEXT, "the class of the exception"),
    "message": (_TEXT, "of the exception; or what went wrong, in words"),
    "traceback": (_TEXT, "of the exception, as Python prints it"),
    "stacks": (
        _WORDS,
        "where the ranks were before they were asked to end, one line for each place",
    ),
    "errno": (_COUNT, "the error of the operating system"),
    "failed_rank": (_COUNT, "the rank that failed (its local rank; in a job, its rank)"),
    "host": (_TEXT, "the name of the machine"),
    "slot": (_COUNT, "which of the engine's node processes"),
    "of_node": (_COUNT, "the node rank that the machine has in this attempt"),
}

_ENDING = ("exit_code", "signal", "core", "cpu_seconds", "peak_memory", "out_of_memory")
_WHERE = ("host", "slot")
_ERROR = ("type", "message", "traceback")

KINDS: dict[str, Kind] = {
    "starting": Kind(
        "an attempt begins",
        False,
        (
            "name",
            "run",
            "program",
            "words",
            "nproc",
            "node",
            "nodes",
            "first",
            "restarts",
            "launcher",
        ),
        ("sizes",),
    ),
    "running": Kind("every rank has reached its program", False),
    "stopping": Kind("the group is being ended", False),
    "sweeping": Kind("the ranks are gone; what they left behind is being ended", False),
    "backoff": Kind("all are gone; another attempt is to begin", False),
    "succeeded": Kind("the end: every rank finished", False),
    "failed": Kind(
        "the end: a rank failed",
        False,
        ("failed_rank", "outcome", "message"),
        ("exit_code", "signal", "core", "type", "traceback"),
    ),
    "stopped": Kind("the end: it was ended on request", False, (), ("stacks",)),
    "spawned": Kind("the process exists", True),
    "spawn_failed": Kind("it could not be started", True, ("message",), ("errno",)),
    "cancelled": Kind("it was not started, and will not be", True),
    "ready": Kind("it has reached its program", True),
    "reported": Kind("its program has come to its end, of which it told", True, ("ok",), ("type",)),
    "stop_sent": Kind("the stop signal was sent", True, ("signal",)),
    "kill_sent": Kind("SIGKILL was sent", True, ("signal",)),
    "exited": Kind("its process is gone", True, ("ended", "outcome"), (*_ENDING, *_ERROR)),
    "restarting": Kind("it failed, and is to start again by itself", True),
    "hung": Kind("it gave no sign of life for too long", True),
    "gathering": Kind("of a job: node processes are awaited", False),
    "joined": Kind("of a job: a node process is there", False, _WHERE),
    "rank_failed": Kind(
        "of a job: the first failure on a node",
        False,
        (*_WHERE, "of_node", "failed_rank", "outcome", "message"),
        ("exit_code", "signal", "core", "type", "traceback"),
    ),
    "node_lost": Kind("of a job: a node with ranks is gone", False, (*_WHERE, "of_node")),
    "signalled": Kind("of a job: a node got a signal", False, (*_WHERE, "signal"), ("of_node",)),
    "lost": Kind("its process is still there, long after SIGKILL", True),
}


def schema() -> dict[str, Any]:
    """Give the JSON Schema of one event, as `events.jsonl` has it."""
    return {
        "$schema": SCHEMA,
        "title": "An event of a group of ranks",
        "description": "One line of events.jsonl.",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in KINDS],
        "$defs": {name: _schema_of(name, kind) for name, kind in KINDS.items()},
    }


def _schema_of(name: str, kind: Kind) -> dict[str, Any]:
    fields = {**COMMON, **(OF_RANK if kind.of_rank else {})}
    fields |= {fact: FACTS[fact] for fact in (*kind.always, *kind.sometimes)}
    properties = {n: {**kinds, "description": text} for n, (kinds, text) in fields.items()}
    properties["kind"] = {"const": name}
    required = ["kind", *(["rank"] if kind.of_rank else []), "attempt", "at", "time", *kind.always]
    return {
        "description": kind.meaning,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def files() -> dict[Path, str]:
    """Give the file of the schema."""
    return {FILE: json.dumps(schema(), indent=2) + "\n"}
