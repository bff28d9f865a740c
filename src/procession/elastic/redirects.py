"""Redirects a standard stream of this process to a file, at the level of descriptors."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from functools import partial
from typing import Any

__all__ = ["redirect", "redirect_stderr", "redirect_stdout"]

_VALID_STD = {"stdout": 1, "stderr": 2}
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC


@contextlib.contextmanager
def redirect(std: str, to_file: str) -> Generator[None]:
    """Redirect `std`, one of `"stdout"` and `"stderr"`, to a file while the block runs.

    What C code and child processes write goes there, too. What was written before the block or in
    it is flushed to where it belongs. The file is emptied first; its directory must be there.

    A `sys.stdout` that was replaced by an object without a descriptor (a notebook's) is replaced
    meanwhile. Raises ValueError for another name, OSError if the file cannot be opened.
    """
    if std not in _VALID_STD:
        raise ValueError(f"unknown standard stream <{std}>, must be one of {set(_VALID_STD)}")
    stream: Any = getattr(sys, std)
    with contextlib.ExitStack() as opened:
        file = os.open(to_file, _FLAGS, 0o666)
        opened.callback(os.close, file)
        own = _descriptor(stream)
        for fd in {_VALID_STD[std], own} - {None}:
            assert fd is not None
            kept = os.dup(fd)
            opened.callback(os.close, kept)
            opened.callback(os.dup2, kept, fd)
            _flush(std)
            os.dup2(file, fd)
        if own is None:
            text = opened.enter_context(open(os.dup(file), "w", errors="replace", buffering=1))
            setattr(sys, std, text)
            opened.callback(setattr, sys, std, stream)
        opened.callback(_flush, std)
        yield


redirect_stdout = partial(redirect, "stdout")
redirect_stderr = partial(redirect, "stderr")


def _descriptor(stream: Any) -> int | None:
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def _flush(std: str) -> None:
    """Flush the buffers of Python and of the C library."""
    import ctypes

    try:
        getattr(sys, std).flush()
    except (AttributeError, OSError, ValueError):
        pass  # there is no such stream, or it is closed
    ctypes.CDLL(None).fflush(None)
