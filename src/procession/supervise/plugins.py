"""Handlers of events that installed packages bring, by the entry points of one group.

`importlib.metadata` would take 20 ms of each launch to find out that there are none. So this module
searches the directories of `sys.path` itself, and caches the result for each directory until the
directory changes: a launch costs one stat for each of them, and the reading of one small file.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping

from procession.supervise.journal import complain
from procession.system.directories import read_cached, write_cached
from procession.values.events import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GROUP = "procession.event_handlers"
CACHE, FILE = "event_handlers", "found"
LARGEST = 1 << 20
SETTLED_NS = 2_000_000_000  # a directory that changed just now may change again in the same tick
MOST_DIRECTORIES = 500
_METADATA = (".dist-info", ".egg-info")

Handler = Callable[[Event], object]
Environment = Callable[[int, int], Mapping[str, str]]
Found = dict[str, tuple[int, tuple[str, ...]]]  # directory -> its time of change, what it declares


def handlers_of(describe: Callable[[], Mapping[str, Any]]) -> list[Handler]:
    """Make the handlers that installed packages have for a group; what they raise is logged.

    describe: gives what `run.json` holds.
    """
    found: list[Handler] = []
    for declared in dict.fromkeys(find()):
        try:
            handler = _load(declared)(describe())
        except Exception as e:
            complain(declared, e)
        else:
            if handler is not None:
                found.append(handler)
    return found


def harmless_environment(handler: object, give: Environment) -> Environment:
    """Wrap `give`: where it raises, that is logged, and there are no variables.

    give: `handler.environment`: for an attempt and a rank, variables for that rank.
    """
    faulty = False

    def given(attempt: int, rank: int) -> Mapping[str, str]:
        nonlocal faulty
        try:
            return {str(name): str(value) for name, value in give(attempt, rank).items()}
        except Exception as e:
            if not faulty:
                complain(handler, e)
            faulty = True
            return {}

    return given


def find() -> list[str]:
    """Give what installed packages declare, as `module:attribute`, in the order of `sys.path`."""
    known = _read()
    now, changed = time.time_ns(), False
    declared: list[str] = []
    for entry in dict.fromkeys(sys.path):
        try:
            path = os.path.abspath(entry)
            at = os.stat(path).st_mtime_ns
        except (OSError, ValueError):
            continue
        before = known.pop(path, None)
        if before is None or before[0] != at:
            before = at, tuple(_scan(path))
            changed = changed or now - at > SETTLED_NS
        if now - at > SETTLED_NS:
            known[path] = before
        declared += before[1]
    if changed:
        _write(known)
    return declared


def _load(declared: str) -> Callable[[Mapping[str, Any]], Handler | None]:
    from importlib import import_module

    module, _, attribute = declared.partition(":")
    value: Any = import_module(module)
    for name in attribute.split("."):
        value = getattr(value, name)
    return value


def _scan(directory: str) -> list[str]:
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    declared: list[str] = []
    for name in names:
        if name.endswith(_METADATA):
            try:
                with open(os.path.join(directory, name, "entry_points.txt"), "rb") as f:
                    text = f.read(LARGEST)
            except OSError:
                continue  # most packages have none
            if GROUP.encode() in text:
                declared += _declared_in(text.decode(errors="replace"))
    return declared


def _declared_in(text: str) -> list[str]:
    found: list[str] = []
    inside = False
    for each in text.splitlines():
        line = each.strip()
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and "=" in line and not line.startswith(("#", ";")):
            value = line.partition("=")[2].partition("[")[0].strip()  # without extras
            module, colon, attribute = value.partition(":")
            if module.strip() and colon and attribute.strip():
                found.append(f"{module.strip()}:{attribute.strip()}")
    return found


def _read() -> Found:
    text = read_cached(CACHE, FILE, LARGEST)
    found: Found = {}
    for line in (text or b"").decode(errors="surrogateescape").split("\n"):
        path, *rest = line.split("\t")
        if rest and rest[0].isdecimal():
            found[path] = int(rest[0]), tuple(rest[1:])
    return found


def _write(known: Found) -> None:
    lines = ["\t".join((path, str(at), *declared)) for path, (at, declared) in known.items()]
    text = "\n".join(line for line in lines[-MOST_DIRECTORIES:] if "\n" not in line)
    write_cached(CACHE, FILE, text.encode(errors="surrogateescape"))
