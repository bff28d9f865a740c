"""Which tests run in the same ranks (`method="keep"`), as pytest's process knows it.

Ranks tear a module's fixtures down when no other test of theirs needs them, so each is run with the
one that follows in the same ranks. With several workers only the next test of all is known: there,
ranks are kept as long as tests follow each other.
"""

from __future__ import annotations

from procession.pytest.marks import asked_of, count_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.pytest.marks import Asked

    Key = tuple[str, int, str]


class Keeping:
    """The tests of a session that ranks are kept for. marked: its items with ranks."""

    def __init__(self, session: Any, marked: list[Any]) -> None:
        self._several = hasattr(session.config, "workerinput")
        self._number = {item: n for n, item in enumerate(session.items)}
        self._keys: dict[Any, Key] = {}
        self._after: dict[Any, int] = {}
        last: dict[Key, Any] = {}
        for item in marked:
            key = self._key_by_mark(item)
            if key is None:
                continue
            self._keys[item] = key
            if key in last:
                self._after[last[key]] = self._number[item]
            last[key] = item
        self.any = bool(last)

    def _key_by_mark(self, item: Any) -> Key | None:
        try:
            asked = asked_of(item)
            return None if asked is None else self.key_of(item, asked, count_of(item, asked))
        except ValueError:
            return None  # the test says it, when it is run

    def key_of(self, item: Any, asked: Asked, nproc: int) -> Key | None:
        """Say what the tests have in common that have these ranks, None if it is one test.

        Raises ValueError for a test that is not in the scope that its mark names.
        """
        if asked.method != "keep":
            return None
        import pytest

        node = item.getparent(pytest.Class if asked.scope == "class" else pytest.Module)
        if node is None:
            raise ValueError(f'scope="{asked.scope}", and the test is in no {asked.scope}')
        return node.nodeid or str(node.path), nproc, asked.backend

    def is_next(self, item: Any, following: Any) -> None:
        """Take note of what pytest runs next, where only that is known."""
        if self._several and item in self._keys:
            self._after.pop(item, None)
            if self._keys.get(following) == self._keys[item]:
                self._after[item] = self._number[following]

    def after(self, item: Any) -> int | None:
        """Give the number of the item that follows in the same ranks."""
        return self._after.get(item)
