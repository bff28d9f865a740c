"""Values by rank: one value for all, or a mapping from rank to value."""

from __future__ import annotations

from collections.abc import Mapping

from procession.values.base import cast
from procession.values.figures import format_ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")


def is_by_rank(value: object) -> bool:
    """Tell whether `value` is a mapping whose keys are ranks (and has at least one)."""
    keys = list(cast("Mapping[Any, Any]", value)) if isinstance(value, Mapping) else []
    return bool(keys) and all(isinstance(k, int) and not isinstance(k, bool) for k in keys)


def by_rank(value: T | Mapping[int, T], nproc: int, what: str, default: T | None = None) -> list[T]:
    """Give the value of each rank `0..nproc-1`.

    `value` is one value for all ranks or a mapping by rank; ranks that a mapping leaves out get
    `default`, or, where that is None, are an error. Raises ValueError that names `what`.
    """
    if not is_by_rank(value):
        return [cast("T", value)] * nproc
    mapping = cast("Mapping[int, T]", value)
    others = sorted(r for r in mapping if not 0 <= r < nproc)
    if others:
        raise ValueError(
            f"{what}: given for {format_ranks(others)}, but the group's ranks are 0 to {nproc - 1}"
        )
    missing = [r for r in range(nproc) if r not in mapping]
    if missing and default is None:
        raise ValueError(
            f"{what}: nothing given for {format_ranks(missing)}; a mapping by rank must name "
            f"every rank from 0 to {nproc - 1}"
        )
    return [mapping[r] if r in mapping else cast("T", default) for r in range(nproc)]
