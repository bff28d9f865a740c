"""Descriptors of this process: the standard ones, and those to which streams of `io` lead."""

from __future__ import annotations

import io
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TEXT: Any = io.TextIOWrapper
_BUFFERS: Any = (io.BufferedWriter, io.BufferedRandom)


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


def descriptor_of(stream: Any) -> int | None:
    """Give the descriptor to which a stream of the io module leads, None for any other object."""
    try:
        # Not a subclass that wants to see what is written.
        if getattr(stream.__class__, "write", None) is _TEXT.write:
            stream = stream.buffer
        if isinstance(stream, _BUFFERS):
            stream = stream.raw
        return stream.fileno() if issubclass(stream.__class__, io.FileIO) else None
    except ValueError:
        return None  # closed or detached


def leads_to(stream: Any, fd: int) -> bool:
    """Whether what is written to `stream` goes where descriptor `fd` goes."""
    own = descriptor_of(stream)
    if own is None:
        return False
    try:
        return own == fd or os.path.sameopenfile(own, fd)
    except OSError:
        return False  # one of them is closed
