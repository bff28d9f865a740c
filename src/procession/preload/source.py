"""The source of a program's modules: read and parsed, never run."""

from __future__ import annotations

import ast
import os
import stat
import warnings

LARGEST = 1 << 20  # bytes of one file


class Unreadable(Exception):
    """A file cannot be read as a program; says why."""


def parse(path: str) -> tuple[bytes, ast.Module]:
    """Give the text of a file, and its tree. Raises Unreadable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise Unreadable("it is no file")
            with open(fd, "rb", closefd=False) as f:
                source = f.read(LARGEST + 1)
        finally:
            os.close(fd)
    except (OSError, ValueError) as e:
        raise Unreadable(f"it cannot be read: {getattr(e, 'strerror', None) or e}") from None
    if len(source) > LARGEST:
        raise Unreadable(f"it is larger than {LARGEST >> 20} MiB")
    if path.endswith(".pyc") or b"\0" in source:
        raise Unreadable("it is compiled, or no text")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the rank will show them
            return source, ast.parse(source, path)
    except (SyntaxError, ValueError, LookupError) as e:
        raise Unreadable(f"it cannot be parsed: {e}") from None
