"""The standard descriptors of this process, where it was started without some of them."""

from __future__ import annotations

import os


def fill_standard() -> list[int]:
    """Open /dev/null on those of the descriptors 0 to 2 that are closed; gives which.

    Otherwise the next socket or file that is opened would become the standard output of a program.
    The caller closes them. Raises OSError.
    """
    filled: list[int] = []
    for fd in range(3):
        # Nothing is opened where nothing is missing: a KeyboardInterrupt could leave it open.
        try:
            os.fstat(fd)
        except OSError:
            filled.append(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))  # the lowest free number
    return filled
