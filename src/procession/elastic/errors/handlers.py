"""Where `record` gets its error handler from."""

from __future__ import annotations

from procession.elastic.errors.error_handler import ErrorHandler

__all__ = ["get_error_handler"]


def get_error_handler() -> ErrorHandler:
    """Give the handler that `record` uses unless it is given one."""
    return ErrorHandler()
