"""Whether what decided the imports of a layer is still as it was: by its record.

This is asked at each launch that could use the layer, so it is one loop over thousands of files;
those of torch take some 10 ms. Directories come first: they show most changes at the least cost.
"""

from __future__ import annotations

import os
import stat

from procession.agent import stamps
from procession.agent.observing import entries_of, relevance
from procession.agent.record import among, not_of_launch

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Mapping

    from procession.agent.record import Record


def reason_against(record: Record, env: Mapping[str, str]) -> str:
    """Give what has changed since the record was made, "" if nothing has: one plain reason.

    env: the variables that the imports would find now.
    """
    return (
        record["fault"]
        or _variables(record, env)
        or _directories(record)
        or _files(record)
        or _contents(record)
    )


def _variables(record: Record, env: Mapping[str, str]) -> str:
    pairs = [
        (record["variables"], {name: env.get(name) for name in record["variables"]}),
        (record["seen"], among(record["patterns"], env)),
    ]
    if record["all"] is not None:
        pairs.append((record["all"], dict(env)))
    if record["native"] is not None:
        pairs.append((record["native"], not_of_launch(env)))
    for before, now in pairs:
        if before != now:
            differ = {n for n in before.keys() | now.keys() if before.get(n) != now.get(n)}
            return f"the variable {min(differ)} changed"
    return ""


def _directories(record: Record) -> str:
    for path, before, names, whole, packages, paths, relevant in record["directories"]:
        if before is not None and stamps.of_directory(path) == before:
            continue
        is_relevant = relevance(frozenset(names), whole, packages, paths)
        now = {entry for entry in entries_of(path) if is_relevant(entry)}
        differ = now ^ frozenset(relevant)
        if differ:
            entry = min(differ)
            return f"{os.path.join(path, entry)} {'is new' if entry in now else 'was removed'}"
    return ""


def _files(record: Record) -> str:
    look, is_directory = os.stat, stat.S_ISDIR
    for path, before in record["files"].items():
        try:
            now = look(path)
        except (OSError, ValueError):
            if before is not None:
                return f"{path} was removed"
            continue
        if not before:
            if before is None:
                return f"{path} is new"
            if not is_directory(now.st_mode):
                return f"{path} changed"
        elif before != (
            now.st_dev,
            now.st_ino,
            now.st_mode,
            now.st_size,
            now.st_mtime_ns,
            now.st_ctime_ns,
        ):
            return f"{path} changed"
    return ""


def _contents(record: Record) -> str:
    for path in record["opened"]:
        if stamps.of_opened(path) != record["files"][path]:
            return f"{path} changed"
    for path, digest in record["digests"].items():
        if stamps.digest(path) != digest:
            return f"{path} changed"
    return ""
