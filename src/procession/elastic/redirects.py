"""Redirects a standard stream of this process to a file, at the level of descriptors."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from functools import partial

__all__ = ["redirect", "redirect_stderr", "redirect_stdout"]

_VALID_STD = {"stdout": 1, "stderr": 2}
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC


@contextlib.contextmanager
def redirect(std: str, to_file: str) -> Generator[None]:
    """Redirect `std`, one of `"stdout"` and `"stderr"`, to a file while the block runs.

    What C code and child processes write goes there, too. What was written before the block or in
    it is flushed to where it belongs. The file is emptied first; its directory must be there. What
    is written to a `sys.stdout` that was replaced by an object without a descriptor (a notebook's)
    stays there.

    Raises ValueError for another name, OSError if the file cannot be opened.
    """
    if std not in _VALID_STD:
        raise ValueError(f"unknown standard stream <{std}>, must be one of {set(_VALID_STD)}")
    fd = _VALID_STD[std]
    with contextlib.ExitStack() as opened:
        file = os.open(to_file, _FLAGS, 0o666)
        opened.callback(os.close, file)
        kept = os.dup(fd)
        opened.callback(os.close, kept)
        _flush(std)
        opened.callback(os.dup2, kept, fd)
        os.dup2(file, fd)
        opened.callback(_flush, std)
        yield


redirect_stdout = partial(redirect, "stdout")
redirect_stderr = partial(redirect, "stderr")


def _flush(std: str) -> None:
    """Flush the buffers of Python and of the C library."""
    import ctypes

    try:
        getattr(sys, std).flush()
    except (AttributeError, OSError, ValueError):
        pass  # there is no such stream, or it is closed
    ctypes.CDLL(None).fflush(None)
