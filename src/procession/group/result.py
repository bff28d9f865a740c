"""`Result`, which a run gives its caller when it has ended, or the exception if it failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from procession.explain.ends import harmless_report
from procession.rules.tables import Phase
from procession.values.base import Value
from procession.values.errors import (
    GroupEnd,
    GroupFailed,
    Outcome,
    ProcessionError,
    RankEnd,
    StartFailed,
)
from procession.values.program import Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Returned = Iterable[tuple[int, Program, bytes | bytearray]]


class Result(Value):
    """A group that ended without a failure.

    values: by rank; None for commands, scripts and modules, and for ranks that were ended before
    they returned. state: `Phase.SUCCEEDED` or `Phase.STOPPED`. ranks: how each ended, by rank.
    run_dir: the run's directory, "" where there is none.
    """

    values: list[Any]
    state: Phase
    ranks: tuple[RankEnd, ...]
    run_dir: str = ""


def failed_by(
    end: GroupEnd, program: Program, error_of: Callable[[int], dict[str, Any] | None]
) -> GroupFailed:
    """Give the exception for a run that failed.

    error_of: gives what a rank sent about its failure, as `exception_of` reads it, or None.
    """
    first = end.failures[0]
    kind = StartFailed if first.outcome is Outcome.NOT_STARTED else GroupFailed
    failed = kind(end, harmless_report(end))
    sent = error_of(first.rank)
    if sent is not None:
        from procession.prepare.results import exception_of

        failed.__cause__ = exception_of(program, sent)
    return failed


def _value_of(program: Program, body: bytes | bytearray) -> Any:
    from procession.prepare.results import value_of

    return value_of(program, body)


def result_of(end: GroupEnd, state: Phase, returned: Returned) -> Result:
    """Give the result of a run that ended without a failure.

    returned: rank, program and pickled value of each function that returned. Raises
    ProcessionError if a value cannot be unpickled in this process.
    """
    values: list[Any] = [None] * end.nproc
    for rank, program, body in returned:
        try:
            values[rank] = _value_of(program, body)
        except (Exception, SystemExit) as e:  # of a module that exits
            raise ProcessionError(
                f"the value of rank {rank} cannot be unpickled here: {type(e).__name__}: {e}"
            ) from e
    ranks = tuple(sorted((*end.finished, *end.ended), key=lambda each: each.rank))
    return Result(values, state, ranks, end.run_dir)
