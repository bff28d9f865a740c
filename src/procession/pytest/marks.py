"""What `@pytest.mark.ranks(...)` says: read and checked, as plain values."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COUNT = "procession_count"  # the parameter of a test that is run with several counts of ranks
METHODS = ("fork", "spawn", "keep")
SCOPES = ("module", "class")
MOST = 1024
FORM = (
    "ranks(4) or ranks([1, 2, 4]), with timeout=SECONDS, backend=NAME, "
    'method="fork", method="spawn" or method="keep" with scope="module" or scope="class"'
)


class Asked:
    """What a mark asks for.

    counts: how many ranks, one test for each. several: whether they were given as a list. timeout:
    seconds, None for what the session says. backend: of `process_group`. method: how ranks come to
    be. scope: of the tests that ranks are kept for.
    """

    def __init__(
        self,
        n: Any,
        *,
        timeout: Any = None,
        backend: Any = "gloo",
        method: Any = "fork",
        scope: Any = None,
    ) -> None:
        self.several = isinstance(n, (list, tuple, range))
        self.counts: list[int] = list(n) if self.several else [n]
        for count in self.counts:
            if type(count) is not int or not 1 <= count <= MOST:
                raise ValueError(f"a count of ranks is 1 to {MOST}, not {count!r}: write {FORM}")
        if len({*self.counts}) < len(self.counts):
            raise ValueError(f"a count of ranks is given twice: {self.counts}")
        if not self.counts:
            raise ValueError(f"an empty list of counts: write {FORM}")
        self.timeout = None if timeout is None else seconds_of(timeout, "timeout")
        if not isinstance(backend, str):
            raise ValueError(f"backend must be a name, not {backend!r}")
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
        if scope is not None and method != "keep":
            raise ValueError('scope is for method="keep"')
        if scope not in (None, *SCOPES):
            raise ValueError(f"scope must be one of {', '.join(SCOPES)}, not {scope!r}")
        self.backend = backend
        self.method: str = method
        self.scope: str = scope or SCOPES[0]


def seconds_of(value: Any, name: str) -> float:
    """Check a time limit. name: who gave it. Raises ValueError; so also for nan and infinity."""
    if type(value) in (int, float) and 0 <= value <= sys.float_info.max:
        return float(value)
    raise ValueError(f"{name} must be seconds, 0 for no limit, not {value!r}")


def usual_limit(config: Any) -> float:
    """Give the time limit of tests for which nothing else says one. Raises ValueError."""
    said: str = config.getini("ranks_timeout")
    try:
        value: Any = float(said)
    except ValueError:
        value = said
    return seconds_of(value, "the ini option ranks_timeout")


def asked_of(node: Any) -> Asked | None:
    """Read the mark of a test, None if it has none. Raises ValueError for one that is wrong."""
    mark = node.get_closest_marker("ranks")
    if mark is None:
        return None
    try:
        return Asked(*mark.args, **mark.kwargs)
    except TypeError as e:  # the arguments are not those of a mark
        raise ValueError(f"{str(e).removeprefix('Asked.__init__() ')}: write {FORM}") from None


def count_of(item: Any, asked: Asked) -> int:
    """Say how many ranks a test has in this session."""
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    only = item.config.getoption("--ranks") if item.get_closest_marker("ranks") else None
    return params.get(COUNT, only or asked.counts[0])
