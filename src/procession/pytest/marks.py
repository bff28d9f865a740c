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

    def __init__(self, mark: Any) -> None:
        args, given = tuple(mark.args), dict(mark.kwargs)
        for name in ("n", "nproc"):
            if name in given and not args:
                args = (given.pop(name),)
        if len(args) != 1:
            raise ValueError(f"write {FORM}")
        self.several = isinstance(args[0], (list, tuple, range))
        counts: list[Any] = list(args[0]) if self.several else [args[0]]
        for count in counts:
            if type(count) is not int or not 1 <= count <= MOST:
                raise ValueError(f"a count of ranks is 1 to {MOST}, not {count!r}: write {FORM}")
        if len({*counts}) < len(counts):
            raise ValueError(f"a count of ranks is given twice: {counts}")
        if not counts:
            raise ValueError(f"an empty list of counts: write {FORM}")
        self.counts: list[int] = counts
        limit = given.pop("timeout", None)
        self.timeout: float | None = None if limit is None else seconds_of(limit, "timeout")
        self.backend: str = given.pop("backend", "gloo")
        self.method: str = given.pop("method", "fork")
        self.scope: str = given.pop("scope", "module" if self.method == "keep" else "")
        if not isinstance(self.backend, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"backend must be a name, not {self.backend!r}")
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, not {self.method!r}")
        if self.scope and self.method != "keep":
            raise ValueError('scope is for method="keep"')
        if self.method == "keep" and self.scope not in SCOPES:
            raise ValueError(f"scope must be one of {', '.join(SCOPES)}, not {self.scope!r}")
        if given:
            raise ValueError(f"ranks knows no {', '.join(sorted(given))}: write {FORM}")


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
    return None if mark is None else Asked(mark)


def count_of(item: Any, asked: Asked) -> int:
    """Say how many ranks a test has in this session."""
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    only = item.config.getoption("--ranks") if item.get_closest_marker("ranks") else None
    return params.get(COUNT, only or asked.counts[0])
