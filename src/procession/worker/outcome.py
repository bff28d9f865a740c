"""What a rank tells its launcher: one frame on its result pipe, before it begins to exit.

A frame is a header (kind, length of the body, time in nanoseconds of the monotonic clock) and a
body. The kinds:
    D  done: the program came to its end, or called `sys.exit(0)`; no body
    V  value: the body is the pickled value of a function
    E  error: the body is JSON, see `describe`
The time stands in the header, so that it is known when the value is still on its way. The result
pipe belongs to the rank's first process: a child that it forks does not write there.
"""

from __future__ import annotations

import binascii
import os
import pickle
import struct
import sys
import time

HEADER = struct.Struct("<cQq")
DONE, VALUE, ERROR = b"D", b"V", b"E"
MAX_DEPTH = 50  # of causes and groups

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    Record = dict[str, Any]

_OUR_FILES = os.path.dirname(os.path.abspath(__file__)) + os.sep


class ResultPipe:
    """The rank's end of its result pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pid = os.getpid()
        os.set_inheritable(fd, False)

    def done(self) -> None:
        """Tell that the program came to its end."""
        self._send(DONE, b"", time.monotonic_ns())

    def value(self, value: object) -> bool:
        """Send the value of a function; False (and an error is sent) if it cannot be pickled."""
        at = time.monotonic_ns()
        try:
            body = encode_value(value)
        except Exception as e:
            self.error(
                {
                    "kind": "unpicklable",
                    "type": type_name(type(value)),
                    "message": f"{type_name(type(e))}: {e}",
                }
            )
            return False
        self._send(VALUE, body, at)
        return True

    def error(self, record: Record) -> None:
        """Tell how the program failed."""
        import json

        self._send(ERROR, json.dumps(record).encode(), time.monotonic_ns())

    def _send(self, kind: bytes, body: bytes, at: int) -> None:
        if os.getpid() != self._pid or self._fd < 0:
            return
        try:
            for part in (memoryview(HEADER.pack(kind, len(body), at)), memoryview(body)):
                while part:
                    part = part[os.write(self._fd, part) :]  # noqa: PLW2901
            os.close(self._fd)
        except OSError:
            pass  # the launcher is gone, and so is this rank in a moment
        self._fd = -1


def encode_value(value: object) -> bytes:
    """Pickle a value; what a launcher defined in its `__main__` goes by value."""
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:
        # Only where the function itself came by value is the library there already.
        cloudpickle = sys.modules.get("cloudpickle")
        if cloudpickle is None:
            raise
        return cloudpickle.dumps(value, protocol=5)


def type_name(cls: type) -> str:
    """Name a class as Python's own tracebacks do."""
    if cls.__module__ in ("builtins", "__main__"):
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def text_of(error: object) -> str:
    """Give `str(error)`, also where that raises."""
    try:
        return str(error)
    except Exception as e:
        return f"<its text cannot be had: {type_name(type(e))}>"


def own_frames_cut(tb: TracebackType | None) -> TracebackType | None:
    """Leave out the frames of the bootstrap, which stand first."""
    while tb is not None and _is_ours(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    return tb


def _is_ours(filename: str) -> bool:
    return filename.startswith((_OUR_FILES, "<frozen runpy>", "<frozen importlib"))


def describe(error: BaseException, *, rebuildable: bool) -> Record:
    """Describe an exception: its full text, and, if `rebuildable`, what it can be rebuilt from."""
    import traceback

    error.__traceback__ = own_frames_cut(error.__traceback__)
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception as e:
        text = f"{type_name(type(error))}: {text_of(error)}\n<no traceback: {text_of(e)}>\n"
    record: Record = {
        "kind": "interrupted" if isinstance(error, KeyboardInterrupt) else "raised",
        "type": type_name(type(error)),
        "message": text_of(error),
        "traceback": text,
    }
    if isinstance(error, OSError) and isinstance(error.errno, int):
        record["errno"] = error.errno
    if rebuildable:
        record["exception"] = _parts(error, set(), 0)
    return record


def _parts(error: BaseException, seen: set[int], depth: int) -> Record:
    seen.add(id(error))
    record: Record = {
        "type": type_name(type(error)),
        "message": text_of(error),
        "frames": _frames(error.__traceback__),
        "suppress": error.__suppress_context__,
    }
    try:
        # Without its traceback and causes, which go beside it; a round trip, because many
        # classes pickle and then do not unpickle.
        body = encode_value(error)
        pickle.loads(body)
        record["pickle"] = binascii.b2a_base64(body, newline=False).decode("ascii")
    except Exception:
        pass
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, list):
        record["notes"] = [text_of(n) for n in notes]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    for link, other in (("cause", error.__cause__), ("context", error.__context__)):
        if other is not None and id(other) not in seen and depth < MAX_DEPTH:
            record[link] = _parts(other, seen, depth + 1)
    inner = getattr(error, "exceptions", None)
    if isinstance(inner, tuple) and depth < MAX_DEPTH:
        record["exceptions"] = [
            _parts(e, seen, depth + 1)
            for e in inner  # pyright: ignore[reportUnknownVariableType]
            if isinstance(e, BaseException)
        ]
    return record


def _frames(tb: TracebackType | None) -> list[tuple[str, str, int]]:
    frames: list[tuple[str, str, int]] = []
    while tb is not None:
        code = tb.tb_frame.f_code
        frames.append((code.co_filename, code.co_name, tb.tb_lineno))
        tb = tb.tb_next
    return frames
