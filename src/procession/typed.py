"""`cast`, without the import of `typing`, which would cost every launch more than its own work."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import cast
else:

    def cast(_kind, value):
        """Give the value as it is; its type is for the type checker alone."""
        return value


__all__ = ["cast"]
