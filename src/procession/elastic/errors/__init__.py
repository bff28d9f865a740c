"""How the error of a rank reaches its launcher, and from there the launcher above.

A program whose main function is decorated with `record` writes the exception that ends it to the
file that `TORCHELASTIC_ERROR_FILE` names. The launcher reads it as a `ProcessFailure`, and raises
`ChildFailedError`; where it is itself decorated with `record`, the file of the first failure is
handed on as its own.
"""

from __future__ import annotations

import functools
import logging
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from procession.elastic.errors.error_handler import ErrorHandler
from procession.elastic.errors.failure import JSON, NOT_AVAILABLE, ProcessFailure
from procession.elastic.errors.handlers import get_error_handler

__all__ = [
    "ChildFailedError",
    "ErrorHandler",
    "ProcessFailure",
    "get_error_handler",
    "record",
]

logger = logging.getLogger(__name__)

GlobalRank = int

_R = TypeVar("_R")
_P = ParamSpec("_P")

_WIDEST = 60  # columns of the frame
_NO_OTHERS = "  <NO_OTHER_FAILURES>"


class ChildFailedError(Exception):
    """Ranks failed. `str()` of it is a framed report, the first failure apart from the others.

    name: of what failed. failures: by global rank, a `ProcessFailure`, or the path of an error
    file. Raised from a function that is decorated with `record`, it hands on the error file of the
    first failure instead of being recorded itself.
    """

    def __init__(self, name: str, failures: Mapping[GlobalRank, ProcessFailure | str]) -> None:
        assert failures, "there is no ChildFailedError without a failure"
        self.name = name
        self.failures: dict[GlobalRank, ProcessFailure] = {
            rank: ProcessFailure(rank, -1, 1, failure) if isinstance(failure, str) else failure
            for rank, failure in failures.items()
        }
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[GlobalRank, ProcessFailure]:
        """Give rank and failure of the one that failed first.

        By whole seconds, as error files have them; of those within one second, the one that stands
        first, which in the results of `start_processes` is the one that happened first.
        """
        return min(self.failures.items(), key=lambda item: item[1].timestamp)

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """Write the report; the two characters draw its frame and the lines within."""
        title = f"{self.name} FAILED"
        first, _ = self.get_first_failure()
        described = {
            rank: _described(number, rank, failure)
            for number, (rank, failure) in enumerate(self.failures.items())
        }
        lines = [title, *(line for text in described.values() for line in text.split("\n"))]
        width = min(_WIDEST, max(map(len, lines)))
        others = [text for rank, text in described.items() if rank != first]
        return "\n".join(
            [
                "",
                boarder_delim * width,
                title,
                section_delim * width,
                "Failures:",
                *(others or [_NO_OTHERS]),
                section_delim * width,
                "Root Cause (first observed failure):",
                described[first],
                boarder_delim * width,
            ]
        )


def _described(number: int, rank: int, failure: ProcessFailure) -> str:
    text = _traceback(failure.message)
    if failure.exitcode < 0:
        try:
            handler = get_error_handler()
            text = handler.maybe_enrich_signal_failure_message(text, failure.error_file)
        except Exception:
            logger.warning("the error handler could not add to the report", exc_info=True)
    by_signal = f"  ({failure.signal_name()})" if failure.signal_name() != NOT_AVAILABLE else ""
    facts = {
        "time": failure.timestamp_isoformat(),
        "host": socket.getfqdn(),
        "rank": f"{rank} (local_rank: {failure.local_rank})",
        "exitcode": f"{failure.exitcode} (pid: {failure.pid}){by_signal}",
        "error_file": failure.error_file,
        "traceback": text.rstrip(),
    }
    lines = [f"{key:<10}: {value}".replace("\n", "\n  ") for key, value in facts.items()]
    return "\n".join([f"[{number}]:", *(f"  {line}" for line in lines)])


def _traceback(message: Any) -> str:
    if not isinstance(message, Mapping):
        return str(message)
    found = cast("JSON", message)
    extra: Any = found.get("extraInfo") or {}
    return str(extra.get("py_callstack", found.get("message", NOT_AVAILABLE)))


def record(
    fn: Callable[_P, _R], error_handler: ErrorHandler | None = None
) -> Callable[_P, _R | None]:
    """Have a program's main function write the exception that ends it to its error file.

    fn: the function; to be used once per process, on its outermost function. error_handler: by
    default that of `get_error_handler`. Before `fn` it gets the name of `fn` and its `initialize`
    is called; its `record_success` is called after `fn` has returned.

    An exception is recorded and raised again; of a `ChildFailedError` the first failure's file is
    handed on. `sys.exit(0)` in `fn` makes it return None; other exits are neither recorded nor
    changed.
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def recorded(*args: _P.args, **kwargs: _P.kwargs) -> _R | None:
        handler.set_entrypoint_fn_name(getattr(fn, "__qualname__", None))
        handler.initialize()
        try:
            value = fn(*args, **kwargs)
        except SystemExit as e:
            if e.code == 0:
                return None
            raise
        except Exception as e:
            if not _hand_on(e, handler):
                handler.record_exception(e)
            raise
        handler.record_success()
        return value

    return recorded


def _hand_on(e: Any, handler: ErrorHandler) -> bool:
    """Make the error file of the first failure this process's own, if `e` is a `ChildFailedError`.

    Ours, or torch's where that is imported. False if it is something else.
    """
    torchs = sys.modules.get("torch.distributed.elastic.multiprocessing.errors")
    if not isinstance(e, (ChildFailedError, getattr(torchs, "ChildFailedError", ChildFailedError))):
        return False
    rank, failure = cast("ChildFailedError", e).get_first_failure()
    if failure.error_file != NOT_AVAILABLE:
        handler.dump_error_file(failure.error_file, failure.exitcode)
    else:
        logger.info("rank %s failed without an error file: there is none to hand on", rank)
    return True
