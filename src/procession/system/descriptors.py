"""The standard descriptors of this process, where it was started without some of them."""

from __future__ import annotations

import os


def fill_standard() -> list[int]:
    """Open /dev/null on those of the descriptors 0 to 2 that are closed; gives which.

    Without that, a socket or a file that is opened next would become somebody's standard output.
    The caller closes them. Raises OSError.
    """
    filled: list[int] = []
    while (fd := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= 2:
        filled.append(fd)
    os.close(fd)
    return filled
