"""Descriptors of this process: the standard ones, and those to which streams of `io` lead."""

from __future__ import annotations

import io
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TEXT: Any = io.TextIOWrapper


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
        if _is(stream, io.TextIOWrapper):
            if _class(stream).write is not _TEXT.write:
                return None  # a subclass wants to see what is written
            stream = stream.buffer
        if _is(stream, io.BufferedWriter, io.BufferedRandom):
            stream = stream.raw
        return stream.fileno() if _is(stream, io.FileIO) else None
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


def _class(stream: Any) -> Any:
    return stream.__class__


def _is(stream: Any, *kinds: type) -> bool:
    return isinstance(stream, kinds)
