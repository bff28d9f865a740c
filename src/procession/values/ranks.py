"""Values by rank: one value for all, or a mapping from rank to value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from procession.values.base import cast, is_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")

LONGEST_RANKS = 18  # characters


def is_by_rank(value: object) -> bool:
    """Tell whether `value` is a mapping whose keys are ranks (and has at least one)."""
    if not isinstance(value, Mapping):
        return False
    keys = list(cast("Mapping[Any, Any]", value))
    return bool(keys) and all(isinstance(k, int) and not isinstance(k, bool) for k in keys)


def by_rank(value: T | Mapping[int, T], nproc: int, what: str, default: T | None = None) -> list[T]:
    """Give the value of each rank `0..nproc-1`.

    `value` is one value for all ranks or a mapping by rank; ranks that a mapping leaves out get
    `default`, or, where that is None, are an error. Raises ValueError that names `what`.
    """
    if not is_by_rank(value):
        return [cast("T", value)] * nproc
    mapping = cast("Mapping[int, T]", value)
    strangers = sorted(r for r in mapping if not 0 <= r < nproc)
    if strangers:
        raise ValueError(
            f"{what}: given for {format_ranks(strangers)}, but the group's ranks are "
            f"0 to {nproc - 1}"
        )
    missing = [r for r in range(nproc) if r not in mapping]
    if missing and default is None:
        raise ValueError(
            f"{what}: nothing given for {format_ranks(missing)}; a mapping by rank must name "
            f"every rank from 0 to {nproc - 1}"
        )
    return [mapping[r] if r in mapping else cast("T", default) for r in range(nproc)]


def parse_ranks(text: str) -> frozenset[int]:
    """Read a list of ranks such as `0,2,5-7`. Raises ValueError."""
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not is_count(first, 6) or (dash and not is_count(last, 6)):
            raise ValueError(f"not a list of ranks: {text!r}; write, for example, 0,2,5-7")
        low, high = int(first), int(last) if dash else int(first)
        if low > high:
            raise ValueError(f"not a range of ranks: {part.strip()!r}; the smaller comes first")
        ranks.update(range(low, high + 1))
    return frozenset(ranks)


def fold_ranks(ranks: Iterable[int]) -> str:
    """Write ranks as short as possible: `0-2,4`."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def format_ranks(ranks: Iterable[int]) -> str:
    """Write ranks for a sentence: `rank 3`, `ranks 0-2,4`."""
    members = set(ranks)
    return f"rank{'' if len(members) == 1 else 's'} {fold_ranks(members)}"


def short_ranks(members: Sequence[int]) -> str:
    """Name ranks in at most `LONGEST_RANKS` characters: `3`, `[0-31,40-63]`, `[0,2,4,6...] 32`."""
    text = fold_ranks(members)
    if len(members) == 1:
        return text
    if len(text) + 2 <= LONGEST_RANKS:
        return f"[{text}]"
    count = f"...] {len(members)}"
    kept = text[: LONGEST_RANKS - 1 - len(count)]
    return f"[{kept.rpartition(',')[0] or kept}{count}"
