"""What an agent has imported, with the records of what decided it.

Theory of operation. An agent that is kept makes the imports of its first launch, and those that
later launches need beside them. Of each time there is a record. If one of them is no longer true,
what the process holds is useless. Only imports of installed packages are kept
(`preload.choose`): they read little, and change by an installation.

Whether a record is still true is asked at each launch that could use it, so that is one loop over
thousands of files; those of torch take some 10 ms. Directories come first: they show most changes
at the least cost.

Rejected: to load changed modules again in place (`importlib.reload`). Other modules and objects
would still refer to the old ones.
"""

from __future__ import annotations

import os
import sys

from procession.agent import stamps
from procession.agent.observing import Observer, entries_of, relevant
from procession.agent.record import record

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

    from procession.agent.record import Record


class Layers:
    """The records of this process, lowest first.

    late: something was imported before, and nobody knows what decided it. fault: why these layers
    must not be used again, whatever changes; "" if they may.
    """

    def __init__(self, *, late: bool = False) -> None:
        self.records: list[Record] = []
        self.fault = "it was not observed from the beginning" if late else ""
        self.observer = Observer()
        self._before: set[str] = set()

    def close(self) -> None:
        """End a layer: what comes now belongs to another one."""
        new = [name for name in list(sys.modules) if name not in self._before]
        self._before.update(new)
        self.records.append(record(self.observer, new, lowest=not self.records))
        self.fault = self.fault or self.records[-1]["fault"]

    def reason_against(self) -> str:
        """Give why these layers must not be used: what has changed, "" if nothing has."""
        reasons = [self.fault]
        reasons += map(reason_against, self.records)
        return next(filter(None, reasons), "")


def reason_against(record: Record) -> str:
    """Give what has changed since the record was made, "" if nothing has: one plain reason."""
    return record["fault"] or _directories(record) or _files(record)


def _directories(record: Record) -> str:
    for path, before, names, whole, then in record["directories"]:
        if before is not None and stamps.of_directory(path) == before:
            continue
        now = relevant(entries_of(path), frozenset(names), whole)
        differ = {*now} ^ {*then}
        if differ:
            entry = min(differ)
            return f"{os.path.join(path, entry)} {'is new' if entry in now else 'was removed'}"
    return ""


def _files(record: Record) -> str:
    look = stamps.of
    for path, before in record["files"].items():
        now = look(path)
        if now != before:
            return f"{path} {'is new' if before is None else _change(now)}"
    for path in record["opened"]:
        now = stamps.of_opened(path)
        if now != record["files"][path]:
            return f"{path} {_change(now)}"
    return ""


def _change(now: stamps.Stamp) -> str:
    return "was removed" if now is None else "changed"


def forget_searches() -> None:
    """Have modules searched for anew: what a finder remembers of a directory may be old.

    It compares the time of the directory, which does not show a change in the same tick.
    """
    finders: dict[str, Any] = dict(sys.path_importer_cache)
    for path, finder in finders.items():
        if finder is None:
            del sys.path_importer_cache[path]  # nothing was there
        elif hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()
    metadata: Any = sys.modules.get("importlib.metadata")
    if metadata is not None:
        metadata.MetadataPathFinder().invalidate_caches()  # a method of objects before Python 3.12
