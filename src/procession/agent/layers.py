"""What an agent has imported, with the records of what decided it.

Theory of operation. An agent that is kept makes the imports of its first launch, and those that
later launches need beside them. Of each time there is a record. If one of them is no longer true,
what the process holds is useless. Only imports of installed packages are kept
(`preload.choose`): they read little, and change by an installation.

Rejected: to load changed modules again in place (`importlib.reload`). Other modules and objects
would still refer to the old ones.
"""

from __future__ import annotations

import sys

from procession.agent.observing import Observer
from procession.agent.record import record
from procession.agent.unchanged import reason_against

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from procession.agent.record import Record


class Layers:
    """The records of this process, lowest first. Within `with`, what is done belongs to the next.

    listed: packages whose reads of variables are known. late: something was imported before, and
    nobody knows what decided it.
    """

    def __init__(self, listed: Iterable[str], *, late: bool = False) -> None:
        self.records: list[Record] = []
        self._fault = "it was not observed from the beginning" if late else ""
        self._before: set[str] = set()
        self._observer = Observer(listed)

    def __enter__(self) -> None:
        self._observer.begin()

    def __exit__(self, *_: object) -> None:
        self._observer.end()

    def close(self, env: Mapping[str, str], reads: Iterable[str]) -> None:
        """End a layer: what comes now belongs to another one.

        env: the variables that it found. reads: those that its modules are known to read.
        """
        new = [name for name in list(sys.modules) if name not in self._before]
        found = record(self._observer, new, env, reads, lowest=not self.records)
        found["fault"] = self._fault or found["fault"]
        self._before.update(new)
        self.records.append(found)

    @property
    def fault(self) -> str:
        """Why these layers must not be used again, whatever changes; "" if they may."""
        return next((each["fault"] for each in self.records if each["fault"]), "")

    def reason_against(self, env: Mapping[str, str]) -> str:
        """Give why these layers must not be used: what has changed, "" if nothing has.

        env: the variables that the imports would find now.
        """
        return next(filter(None, (reason_against(each, env) for each in self.records)), "")


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
