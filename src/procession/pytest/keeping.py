"""Which tests run in the same ranks (`method="keep"`), as pytest's process knows it.

Ranks tear a module's fixtures down when no other test of theirs needs them, so each is run with the
one that follows in the same ranks. With several workers only the next test of all is known: there,
ranks are kept as long as tests follow each other.
"""

from __future__ import annotations

import pytest

from procession.pytest.marks import asked_of, count_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Key = tuple[str, int, str]


def key_of(item: Any) -> Key | None:
    """Say what the tests have in common that have the ranks of this one, None if it has its own.

    Raises ValueError for a mark that is wrong, and a test that is not in the scope that it names.
    """
    asked = asked_of(item)
    if asked is None or asked.method != "keep":
        return None
    node = item.getparent(pytest.Class if asked.scope == "class" else pytest.Module)
    if node is None:
        raise ValueError(f'scope="{asked.scope}", and the test is in no {asked.scope}')
    return node.nodeid or str(node.path), count_of(item, asked), asked.backend


def following(key: Key, session: Any, after: Any) -> int | None:
    """Give the number of the next test in the same ranks. after: the next one of all, or None."""
    if after is None:
        return None
    first = session.items.index(after)
    several = hasattr(session.config, "workerinput")
    for number in range(first, first + 1 if several else len(session.items)):
        try:
            if key_of(session.items[number]) == key:
                return number
        except ValueError:
            pass  # the test says it, when it is run
    return None
