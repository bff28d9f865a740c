"""What a value is: `cast`, without the import of `typing`; and texts that are numbers.

`typing` takes longer to import than all the work of a launch here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import cast
else:

    def cast(_kind, value):
        """Give the value as it is; its type is for the type checker alone."""
        return value


__all__ = ["cast", "is_count"]


def is_count(text: str, most: int = 9) -> bool:
    """Tell whether a text is a number from 0 on, in at most so many ASCII digits.

    `int` takes digits of all scripts, and raises ValueError for more than some thousand of them.
    """
    return len(text) <= most and text.isascii() and text.isdecimal()
