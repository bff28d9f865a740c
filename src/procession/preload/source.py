"""The source of a program, as a tree; it is read and never run."""

from __future__ import annotations

import ast
import os
import stat
import warnings

LARGEST = 1 << 20  # bytes of one file


def parse(path: str) -> tuple[list[bytes], ast.Module | str]:
    """Read a program's lines and its tree; instead of the tree, why there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            mode = os.fstat(fd).st_mode
            source = _contents(fd) if stat.S_ISREG(mode) else b""
        finally:
            os.close(fd)
    except (OSError, ValueError) as e:
        return [], f"it cannot be read: {getattr(e, 'strerror', None) or e}"
    if stat.S_ISDIR(mode):
        return [], "it is a directory"
    if not stat.S_ISREG(mode):
        return [], "it is no file"
    if len(source) > LARGEST:
        return [], f"it is larger than {LARGEST >> 20} MiB"
    if path.endswith(".pyc") or b"\0" in source:
        return [], "it is compiled, or no text"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the rank will show them
            tree = ast.parse(source, path)
    except (SyntaxError, ValueError, LookupError) as e:
        return [], f"it cannot be parsed: {e}"
    return source.split(b"\n"), tree


def _contents(fd: int) -> bytes:
    with open(fd, "rb", closefd=False) as f:
        return f.read(LARGEST + 1)
