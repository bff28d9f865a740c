"""The ends of ranks and groups as plain data, as a node process sends them to its driver. Pure.

Reading them is safe whoever wrote them: nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from procession.values.base import Value, cast
from procession.values.errors import Exit, GroupEnd, Outcome, RankEnd

Fields = dict[str, Any]

OF_RANKS = ("failures", "ended", "finished")


def plain_rank(end: RankEnd) -> Fields:
    """Give the end of a rank as JSON can hold it."""
    fields = _fields(end)
    fields["outcome"] = end.outcome.name
    fields["exit"] = _fields(end.exit)
    return fields


def plain_group(end: GroupEnd) -> Fields:
    """Give the end of a group as JSON can hold it."""
    fields = _fields(end)
    for name in OF_RANKS:
        fields[name] = [plain_rank(each) for each in getattr(end, name)]
    return fields


def rank_end(fields: object) -> RankEnd:
    """Read the end of a rank. Raises ValueError."""
    given = _mapping(fields)
    try:
        given["outcome"] = Outcome[given["outcome"]]
        given["exit"] = Exit(**_mapping(given["exit"]))
        return RankEnd(**_tuples(given))
    except (KeyError, TypeError) as e:
        raise ValueError(f"no end of a rank: {e!r}") from None


def group_end(fields: object) -> GroupEnd:
    """Read the end of a group. Raises ValueError."""
    given = _mapping(fields)
    read: Callable[[object], RankEnd] = rank_end
    try:
        for name in OF_RANKS:
            given[name] = tuple(map(read, given[name]))
        return GroupEnd(**_tuples(given))
    except (KeyError, TypeError) as e:
        raise ValueError(f"no end of a group: {e!r}") from None


def _fields(value: Value) -> Fields:
    return {name: getattr(value, name) for name in value.__match_args__}


def _mapping(fields: object) -> Fields:
    if not isinstance(fields, Mapping):
        raise ValueError("no object")
    return dict(cast("Mapping[str, Any]", fields))


def _tuples(fields: Fields) -> Fields:
    return {n: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for n, v in fields.items()}
