"""The ends of ranks and groups as plain data, as a node process sends them to its driver. Pure.

Reading them is safe whoever wrote them: nothing is unpickled.
"""

from __future__ import annotations

from typing import Any

from procession.values.base import Value, cast
from procession.values.errors import Exit, GroupEnd, Outcome, RankEnd

Fields = dict[str, Any]

OF_RANKS = ("failures", "ended", "finished")


def plain_rank(end: RankEnd) -> Fields:
    """Give the end of a rank as JSON can hold it."""
    return {**_fields(end), "outcome": end.outcome.name, "exit": _fields(end.exit)}


def plain_group(end: GroupEnd) -> Fields:
    """Give the end of a group as JSON can hold it."""
    return {**_fields(end), **{n: [plain_rank(e) for e in getattr(end, n)] for n in OF_RANKS}}


def rank_end(fields: Any) -> RankEnd:
    """Read the end of a rank. Raises ValueError, KeyError or TypeError if it is malformed."""
    given = _tuples(fields)
    given["outcome"] = Outcome[given["outcome"]]
    given["exit"] = Exit(**given["exit"])
    return RankEnd(**given)


def group_end(fields: Any) -> GroupEnd:
    """Read the end of a group. Raises as `rank_end`."""
    given = _tuples(fields)
    for name in OF_RANKS:
        given[name] = tuple(map(rank_end, given[name]))
    return GroupEnd(**given)


def _fields(value: Value) -> Fields:
    return {name: getattr(value, name) for name in value.__match_args__}


def _tuples(fields: Any) -> Fields:
    given: Fields = dict(fields)
    return {n: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for n, v in given.items()}
