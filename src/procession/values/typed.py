"""`cast`, without the import of `typing`, which takes longer than all the work of a launch here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import cast
else:

    def cast(_kind, value):
        """Give the value as it is; its type is for the type checker alone."""
        return value


__all__ = ["cast"]
