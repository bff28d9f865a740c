"""What ranks tell on their result pipes, read in the launcher: values and exceptions.

Only the outcome of a function may hold pickles: of values and exceptions that the caller's own
function gave. Whatever a script or a module tells is read as data.
"""

from __future__ import annotations

import os
from functools import cached_property
from types import TracebackType

from procession.errors import RemoteError
from procession.typed import cast
from procession.values import Value
from procession.worker.frames import ACCOUNT, DONE, ERROR, FAILED, HEADER, VALUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]  # as `worker.description` describes an error

BLOCK = 1 << 20
LARGEST_ACCOUNT = 256 << 10  # bytes
BLOCKS_AT_ONCE = 16  # so that one large value does not keep the others waiting


class Told(Value):
    """A rank's outcome as it told it: its kind, when it happened, and the body of its frame."""

    kind: bytes
    at: int
    body: bytearray

    @property
    def good(self) -> bool:
        """Whether the program came to a good end."""
        return self.kind in (DONE, VALUE)

    @cached_property
    def record(self) -> Record:
        """The description of a failure, as far as it was told; `{}` if there is none."""
        if self.kind == FAILED:
            return _early_record(bytes(self.body))
        if self.kind != ERROR:
            return {}
        import json

        try:
            record = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return cast("Record", record) if isinstance(record, dict) else {}


def _early_record(body: bytes) -> Record:
    kind, _, rest = body.decode(errors="replace").partition("\0")
    code, _, cls = rest.partition("\0")
    known: Record = {"kind": kind, "type": cls}
    return {**known, "code": int(code)} if code.isdecimal() and len(code) < 4 else known


class ResultReader:
    """The launcher's end of a rank's result pipe; it owns the descriptor.

    told: the outcome, as far as it is known. garbage: what came is not our bootstrap's: whoever
    writes it is not believed, and not kept waiting. account: what was told after a good outcome,
    see `worker.account`.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._data = bytearray()
        self.told: Told | None = None
        self.account = b""
        self.garbage = False
        self.ended = False

    def read(self, everything: bool = False) -> bool:
        """Read what there is; True if more is known of the outcome than before."""
        before = self.told
        blocks = 0
        while not self.ended and (everything or blocks < BLOCKS_AT_ONCE):
            blocks += 1
            try:
                data = os.read(self.fd, BLOCK)
            except BlockingIOError:
                break
            if not data:
                self.ended = True
            if not self.garbage and (not self._complete or self._expects_account):
                self._data += data
                self._take_frames()
        return self.told is not before

    @property
    def _complete(self) -> bool:
        return self.told is not None and self.told.kind != FAILED

    @property
    def _expects_account(self) -> bool:
        return not self.account and len(self._data) <= LARGEST_ACCOUNT

    def _take_frames(self) -> None:
        while len(self._data) >= HEADER.size:
            kind, length, at = HEADER.unpack_from(self._data)
            if self._complete and (kind != ACCOUNT or length > LARGEST_ACCOUNT):
                return
            if not self._complete and kind not in (DONE, VALUE, FAILED, ERROR):
                self.garbage = True
                self._data.clear()
                return
            end = HEADER.size + length
            if len(self._data) < end:
                return
            frame = self._data
            self._data = frame[end:]
            del frame[end:]
            del frame[: HEADER.size]
            if kind == ACCOUNT:
                self.account = bytes(frame)
                continue
            # An error is described some time after it happened.
            self.told = Told(kind, at if self.told is None else self.told.at, frame)

    @property
    def torn(self) -> bool:
        """Whether an outcome was begun and not completed."""
        return self.told is None and bool(self._data)

    def close(self) -> None:
        """Close the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def value_of(told: Told) -> Any:
    """Unpickle the value of a function; None where the program has none."""
    if told.kind != VALUE:
        return None
    import pickle

    return pickle.loads(told.body)


def exception_of(record: Record) -> BaseException | None:
    """Rebuild the exception of a function, with its traceback, causes and notes."""
    parts = record.get("exceptions")
    if not isinstance(parts, list) or not parts:
        return None
    try:
        return _rebuild(cast("list[Record]", parts))
    except Exception:
        return RemoteError(str(record.get("type", "")), str(record.get("message", "")))


def _rebuild(parts: list[Record]) -> BaseException:
    errors: list[BaseException | None] = [None] * len(parts)
    for i, part in enumerate(parts):
        error = errors[i] or _unpickled(part)
        errors[i] = error
        # The members of a group came in its own pickle, too: those are the ones that it holds.
        members: tuple[BaseException, ...] = getattr(error, "exceptions", ())
        for member, place in zip(members, part.get("members", ()), strict=False):
            if place is not None and errors[place] is None:
                errors[place] = member
    for error, part in zip(errors, parts, strict=True):
        assert error is not None
        cause, context = part["cause"], part["context"]
        try:
            error.__cause__ = None if cause is None else errors[cause]
            error.__context__ = None if context is None else errors[context]
            error.__suppress_context__ = bool(part["suppress"])
            for note in part.get("notes", ()):
                if note not in getattr(error, "__notes__", ()) and hasattr(error, "add_note"):
                    error.add_note(note)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        except (AttributeError, TypeError):
            pass  # an exception that does not let itself be changed
        error.__traceback__ = _traceback(part["frames"])
    assert errors[0] is not None
    return errors[0]


def _unpickled(part: Record) -> BaseException:
    import base64
    import pickle

    try:
        if "pickle" in part:
            error = pickle.loads(base64.b64decode(part["pickle"]))
            if isinstance(error, BaseException):
                return error
        if "state" in part:
            cls, args, state = pickle.loads(base64.b64decode(part["state"]))
            error = cls.__new__(cls, *args)
            if isinstance(error, BaseException):
                error.args = args
                error.__dict__.update(state)
                return error
    except Exception:
        pass  # a class that this process does not know
    return RemoteError(str(part["type"]), str(part["message"]))


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
