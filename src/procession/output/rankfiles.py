"""Reads what ranks wrote: files that they may have replaced by something else."""

from __future__ import annotations

import errno
import os
import stat

from procession.values.typed import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO


def read_error_file(path: str) -> str:
    """Read torch's error file: its traceback if it holds one, else its message.

    "" if there is no such file, or it is not one.
    """
    try:
        import json

        with open_regular(path) as f:
            data = json.loads(f.read(1 << 24))
    except (OSError, ValueError, RecursionError):
        return ""
    message = _mapping(data).get("message")
    if isinstance(message, dict):
        inner = _mapping(cast("object", message))
        callstack = _mapping(inner.get("extraInfo")).get("py_callstack")
        message = callstack if isinstance(callstack, str) else inner.get("message")
    return message if isinstance(message, str) else ""


def open_regular(path: str) -> BinaryIO:
    """Open a file that a rank may have replaced: never a link, and nothing that could wait.

    Raises OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return open(fd, "rb")


def _mapping(data: object) -> dict[str, Any]:
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}
