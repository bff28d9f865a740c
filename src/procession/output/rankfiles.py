"""Reads what ranks wrote: files that they may have replaced by something else."""

from __future__ import annotations

import errno
import os
import stat

from procession.values.base import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO


LARGEST = 1 << 24  # bytes of an error file


def read_error_file(path: str) -> tuple[str, str]:
    """Read torch's error file: its traceback if it holds one, else its message.

    Gives "" for nothing; and why the file was ignored, "" if it was not.
    """
    try:
        text = read_regular(path)
        import json  # most ranks leave none, and it takes longer to import than to look

        data: object = json.loads(text)
    except FileNotFoundError:
        return "", ""
    except OSError as e:
        return "", "it is a link" if e.errno == errno.ELOOP else e.strerror or str(e)
    except (ValueError, RecursionError):
        return "", "it holds no JSON"
    message = _text(data)
    return message, "" if message else "it holds no message"


def read_regular(path: str) -> bytes:
    """Read such a file whole (see `open_regular`). Raises OSError, also if it is too large."""
    with open_regular(path) as f:
        if os.fstat(f.fileno()).st_size > LARGEST:
            raise OSError(errno.EFBIG, f"it is larger than {LARGEST >> 20} MiB", path)
        return f.read(LARGEST)


def _text(data: object) -> str:
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
        raise OSError(errno.EINVAL, "it is no regular file", path)
    return open(fd, "rb")


def _mapping(data: object) -> dict[str, Any]:
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def end_of(path: str, most: int) -> tuple[float, bytes]:
    """Give when a file was written to, and its last bytes; (0, b"") if it cannot be read."""
    try:
        with open_regular(path) as f:
            f.seek(max(0, f.seek(0, os.SEEK_END) - most))
            return os.fstat(f.fileno()).st_mtime, f.read(most)
    except OSError:
        return 0.0, b""
