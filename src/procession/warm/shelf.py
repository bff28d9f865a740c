"""Which agents are kept, and which one is ended first. Pure: knows no process and no clock.

A kept agent is described by its launcher, in plain values, so that another launcher can tell
whether it fits:

    pid, began       the process
    key              how its interpreter was started, as a text
    modules          what it has imported, in order
    reads, seen      the variables that these read; a digest of the values that they had
    path, cwd        where modules were looked for
    facts            what it has inherited, see `system.facts`
    uses             how many runs it has served
    seconds          how long it is kept without being used
    most, most_memory   how many may be kept, and how many bytes, as its launcher says
    memory           in bytes (PSS), when it came
"""

from __future__ import annotations

from typing import Any, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard

FIELDS = frozenset(
    ("pid", "began", "key", "modules", "reads", "seen", "path", "cwd", "facts", "uses", "seconds",
     "most", "most_memory")
)  # fmt: skip


def describes(kept: object) -> TypeGuard[dict[str, Any]]:
    """Whether this describes a kept agent: all fields are there."""
    return isinstance(kept, dict) and cast("dict[str, Any]", kept).keys() >= FIELDS


class Item:
    """A kept agent. since: when it came, in seconds. memory: in bytes."""

    def __init__(self, number: int, kept: dict[str, Any], since: float, memory: int) -> None:
        self.id = number
        self.kept = kept
        self.since = since
        self.memory = memory

    @property
    def until(self) -> float:
        """When its time is over."""
        return self.since + float(self.kept["seconds"])


class Shelf:
    """The kept ones, the least recently used first."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._last = 0

    def add(self, kept: dict[str, Any], now: float, memory: int) -> tuple[Item, list[Item]]:
        """Add an agent; gives its item, and those that must be ended to make room.

        Its launcher says how many may be kept, and with how much memory together. If it is too
        large by itself, it is among those that must be ended.
        """
        self._last += 1
        item = Item(self._last, kept, now, memory)
        self.items.append(item)
        gone: list[Item] = []
        if memory > kept["most_memory"]:
            gone.append(item)
        while len(self.items) - len(gone) > kept["most"] or (
            item not in gone
            and sum(each.memory for each in self.items if each not in gone) > kept["most_memory"]
        ):
            gone.append(next(each for each in self.items if each not in gone))
        self.items = [each for each in self.items if each not in gone]
        return item, gone

    def take(self, number: object) -> Item | None:
        """Remove an item and give it; None if there is none with this number."""
        for item in self.items:
            if item.id == number:
                self.items.remove(item)
                return item
        return None

    def expired(self, now: float) -> list[Item]:
        """Remove the items whose time is over, and give them."""
        over = [item for item in self.items if item.until <= now]
        self.items = [item for item in self.items if item not in over]
        return over

    @property
    def next_end(self) -> float | None:
        """When the time of the next item is over, None if there is no item."""
        return min((item.until for item in self.items), default=None)
