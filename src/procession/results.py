"""What ranks tell on their result pipes, read in the launcher: values and exceptions.

Only the outcome of a function may hold pickles: of values and exceptions that the caller's own
function gave. Whatever a script or a module tells is read as data.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

from procession.errors import RemoteError
from procession.worker.outcome import DONE, ERROR, HEADER, VALUE

Record = dict[str, Any]  # as `worker.outcome` describes an error

BLOCK = 1 << 20
BLOCKS_AT_ONCE = 16  # so that one large value does not keep the others waiting


@dataclass(frozen=True)
class Told:
    """A rank's outcome as it told it: its kind, when it happened, and the body of its frame."""

    kind: bytes
    at: int
    body: bytearray

    @property
    def good(self) -> bool:
        """Whether the program came to a good end."""
        return self.kind != ERROR

    @property
    def record(self) -> Record:
        """The description of an error; `{}` if there is none or it is garbage."""
        if self.kind != ERROR:
            return {}
        try:
            record = json.loads(self.body)
        except ValueError:
            return {}
        return cast("Record", record) if isinstance(record, dict) else {}


class ResultReader:
    """The launcher's end of a rank's result pipe; it owns the descriptor."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._data = bytearray()
        self._told: Told | None = None
        self.ended = False

    def read(self, everything: bool = False) -> Told | None:
        """Read what there is; the outcome is returned once, when it is complete."""
        blocks = 0
        while not self.ended and (everything or blocks < BLOCKS_AT_ONCE):
            blocks += 1
            try:
                data = os.read(self.fd, BLOCK)
            except BlockingIOError:
                break
            if not data:
                self.ended = True
            self._data += data
        if self._told is not None or len(self._data) < HEADER.size:
            return None
        kind, length, at = HEADER.unpack_from(self._data)
        if kind not in (DONE, VALUE, ERROR):
            self.ended = True  # not our bootstrap: whoever writes here is not believed
            return None
        if len(self._data) < HEADER.size + length:
            return None
        del self._data[HEADER.size + length :]
        del self._data[: HEADER.size]
        self._told = Told(kind, at, self._data)
        return self._told

    @property
    def torn(self) -> bool:
        """Whether an outcome was begun and not completed."""
        return self._told is None and bool(self._data)

    def close(self) -> None:
        """Close the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def value_of(told: Told) -> Any:
    """Unpickle the value of a function; None where the program has none."""
    return pickle.loads(told.body) if told.kind == VALUE else None


def exception_of(record: Record) -> BaseException | None:
    """Rebuild the exception of a function, with its traceback, causes and notes."""
    parts = record.get("exception")
    if not isinstance(parts, dict):
        return None
    try:
        return _rebuild(cast("Record", parts))
    except Exception:
        return RemoteError(str(record.get("type", "")), str(record.get("message", "")))


def _rebuild(parts: Record) -> BaseException:
    return _restored(_unpickled(parts), parts)


def _restored(error: BaseException, parts: Record) -> BaseException:
    """Give an exception what its pickle does not hold."""
    try:
        error.__cause__ = _rebuild(parts["cause"]) if "cause" in parts else None
        error.__context__ = _rebuild(parts["context"]) if "context" in parts else None
        error.__suppress_context__ = bool(parts["suppress"])
        for note in parts.get("notes", ()):
            if note not in getattr(error, "__notes__", ()) and hasattr(error, "add_note"):
                error.add_note(note)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    except (AttributeError, TypeError):
        pass  # an exception that does not let itself be changed
    members: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    for member, told in zip(members, parts.get("exceptions", ()), strict=False):
        _restored(member, told)
    return error.with_traceback(_traceback(parts["frames"]))


def _unpickled(parts: Record) -> BaseException:
    if "pickle" in parts:
        try:
            error = pickle.loads(base64.b64decode(parts["pickle"]))
            if isinstance(error, BaseException):
                return error
        except Exception:
            pass  # a class that this process does not know
    return RemoteError(str(parts["type"]), str(parts["message"]))


def _traceback(frames: list[tuple[str, str, int]]) -> TracebackType | None:
    """Make a real traceback object of file, function and line of each frame."""
    if not frames:
        return None
    from tblib import Traceback  # pyright: ignore[reportMissingTypeStubs]

    chain: TracebackType | None = None
    for filename, function, line in reversed(frames):
        described = {
            "tb_frame": {
                "f_globals": {"__name__": function, "__file__": filename},
                "f_locals": {},
                "f_code": {"co_filename": filename, "co_name": function},
                "f_lineno": line,
            },
            "tb_lineno": line,
            "tb_next": None,
        }
        # One at a time: the library goes through a chain by recursion, and that may be the fault.
        one = cast("TracebackType", cast("Any", Traceback).from_dict(described).as_traceback())
        chain = TracebackType(chain, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return chain
