"""Reports of ranks, read from their outcome channels in the launcher: values and exceptions.

A rank can write anything into its channel. What is believed depends on the kind of its program
alone, and is decided here, for groups and for jobs over several machines alike: `permitted` gives
the kinds of frames that a program may send, the largest body of each, and whether pickles in them
may be loaded. Only functions may send pickles, since those are the caller's own code; what a
script or a module sends is JSON. A frame that is not permitted ends the reading: nothing that
comes after it is believed either. A body is kept as it arrives, never allocated because a header
announces it.
"""

from __future__ import annotations

import fcntl
import os
from functools import cached_property
from types import TracebackType

from procession.values.base import Value, cast, is_count
from procession.values.errors import RemoteError
from procession.values.program import Command, Function
from procession.worker.outcome import (
    DEBUG,
    DONE,
    ERROR,
    FAILED,
    LARGEST_ERROR,
    LARGEST_FAILED,
    SEALS,
    VALUE,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.values.program import Program

    Body = bytes | bytearray | memoryview
    Description = dict[str, Any]  # as `worker.description` describes an error

TEXTS = ("kind", "type", "message", "traceback", "children")  # of an error


# What the ranks of one kind of program may send, as their agent is told (`agent.channels`).
# largest: the largest body in bytes by kind of frame; a kind that is missing may not be sent.
# pickles: whether bodies may hold pickles, which are loaded in the launcher.
# No value can be larger than the machine's memory.
_MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
_SMALL = {DONE: 0, FAILED: LARGEST_FAILED, DEBUG: 0}
OF_FUNCTION: dict[str, Any] = {
    "largest": {**_SMALL, VALUE: _MEMORY, ERROR: _MEMORY},
    "pickles": True,
}
OF_SCRIPT: dict[str, Any] = {"largest": {**_SMALL, ERROR: LARGEST_ERROR}, "pickles": False}
OF_COMMAND: dict[str, Any] = {"largest": {}, "pickles": False}  # it has no channel


def permitted(program: Program) -> dict[str, Any]:
    """Say what the ranks of a program may send: the one place where this is decided."""
    if isinstance(program, Function):
        return OF_FUNCTION
    return OF_COMMAND if isinstance(program, Command) else OF_SCRIPT


class Report(Value):
    """A rank's outcome as it reported it: its kind, when it happened, and the body of its frame."""

    kind: bytes
    at: int
    body: Body

    @property
    def good(self) -> bool:
        """Whether the program came to a good end."""
        return self.kind in (DONE, VALUE)

    @property
    def holds_value(self) -> bool:
        """Whether it is the value that a function returned."""
        return self.kind == VALUE

    @cached_property
    def description(self) -> Description:
        """The description of a failure, as far as it has come; `{}` if there is none."""
        if self.kind == FAILED:
            return _early_record(bytes(self.body))
        if self.kind != ERROR:
            return {}
        import json

        try:
            record = json.loads(bytes(self.body))
        except (ValueError, RecursionError):
            return {}
        return _checked(cast("Description", record)) if isinstance(record, dict) else {}


def _early_record(body: bytes) -> Description:
    kind, _, rest = body.decode(errors="replace").partition("\0")
    code, _, cls = rest.partition("\0")
    known: Description = {"kind": kind, "type": cls}
    return _checked({**known, "code": int(code)} if is_count(code, 3) else known)


def _checked(record: Description) -> Description:
    """Leave out what is not of the type, or in the range, that our bootstrap gives it."""
    for name in TEXTS:
        if name in record and not isinstance(record[name], str):
            del record[name]
    for name, most in (("code", 255), ("errno", 4095)):
        if name in record and (type(record[name]) is not int or not 0 <= record[name] <= most):
            del record[name]
    return record


MAPPED = 32 << 20  # bytes of a memory file that are read, and not mapped, which keeps a descriptor
TOO_LARGE = "it told more than fits into the launcher's memory"


class Frames:
    """Puts a rank's report together from what its agent passes on.

    report: of the outcome, as far as it is known. fault: "", or why what it sent cannot be used.
    """

    def __init__(self) -> None:
        self.report: Report | None = None
        self.fault = ""
        self._pieces = bytearray()

    def add(self, piece: bytes) -> None:
        """Take a part of a body."""
        try:
            self._pieces += piece
        except MemoryError:
            self.fault = TOO_LARGE
            self._pieces = bytearray()

    def take_frame(self, kind: bytes, at: int, body: Body | None) -> None:
        """Take a frame; body: None if it has come in parts."""
        if body is None:
            body, self._pieces = self._pieces, bytearray()
        if not self.fault:
            # An error is described some time after it happened.
            self.report = Report(kind, at if self.report is None else self.report.at, body)

    def take_file(self, kind: bytes, at: int, size: int, fd: int) -> None:
        """Take a frame whose body is in a memory file; its descriptor belongs to this object."""
        if fd < 0:
            self.fault = "there was no descriptor left for its memory file"
            return
        try:
            sealed = fcntl.fcntl(fd, fcntl.F_GET_SEALS) & SEALS == SEALS
            if not sealed or os.fstat(fd).st_size != size:
                raise ValueError("it is not sealed, or of another size")
            self.take_frame(kind, at, _held(fd, size, may_map=kind == VALUE))
        except MemoryError:
            self.fault = TOO_LARGE
        except (OSError, ValueError) as e:
            self.fault = f"its memory file cannot be read: {e}"
        finally:
            os.close(fd)


def _held(fd: int, size: int, *, may_map: bool) -> Body:
    """Give what a sealed file holds. A large one is mapped: while it is read, nobody is heard."""
    if may_map and size > MAPPED:
        import mmap

        return memoryview(mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ))
    with open(fd, "rb", buffering=0, closefd=False) as file:
        file.seek(0)  # its writer has left it at its end
        return file.readall()


def value_of(program: Program, body: Body) -> Any:
    """Unpickle the value of a rank; None for a program that may send none."""
    if not permitted(program)["pickles"]:
        return None
    import pickle

    return pickle.loads(body)


def exception_of(program: Program, record: Description) -> BaseException | None:
    """Rebuild the exception of a rank, with its traceback; None if it has none.

    Of a program that may send no pickles, none is rebuilt.
    """
    if "frames" not in record or not permitted(program)["pickles"]:
        return None
    error = _unpickled(record)
    try:
        error.__traceback__ = _traceback(record["frames"])
    except Exception:
        pass  # those are none
    return error


def _unpickled(record: Description) -> BaseException:
    import base64
    import pickle

    try:
        if "pickle" in record:
            error = pickle.loads(base64.b64decode(record["pickle"]))
            if isinstance(error, BaseException):
                return error
        if "state" in record:
            cls, args, state = pickle.loads(base64.b64decode(record["state"]))
            error = cls.__new__(cls, *args)
            if isinstance(error, BaseException):
                error.args = args
                error.__dict__.update(state)
                return error
    except Exception:
        pass  # a class that this process does not know
    return RemoteError(str(record.get("type", "")), str(record.get("message", "")))


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
