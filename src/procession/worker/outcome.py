"""What a rank tells its launcher: frames on its result pipe, before it begins to exit.

A frame is a header (kind, length of the body, time in nanoseconds of the monotonic clock) and a
body. The kinds:
    D  done: the program came to its end, or called `sys.exit(0)`; no body
    V  value: the body is the pickled value of a function
    F  failed: the body is what is known at once, see `failing`; an E follows, unless the rank dies
    E  error: the body is JSON, see `description.describe`
    A  account: after a good outcome, where the launcher asked for it; see `account`
The time stands in the header, so that it is known when the value is still on its way. A failure is
told twice because to describe it takes time, in which the rank may be killed, and runs code of the
user's exception, which may do anything. The result pipe belongs to the rank's first process: a
child that it forks does not write there.
"""

from __future__ import annotations

import os
import pickle
import sys
import time

from procession.worker.frames import ACCOUNT, DONE, ERROR, FAILED, HEADER, VALUE

# The exit code that this process has told its launcher it is going to have, because it failed; for
# exit handlers that would otherwise wait for other ranks.
announced: int | None = None

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Record = dict[str, Any]


class ResultPipe:
    """The rank's end of its result pipe.

    error_file: where a failure that is described is written, too, unless something is there; ""
    for nowhere. account: gives what is told besides when all went well.
    """

    def __init__(
        self, fd: int, error_file: str = "", account: Callable[[], bytes] | None = None
    ) -> None:
        self._fd = fd
        self._account = account
        self._pid = os.getpid()
        self._identity = _identity(fd)
        self._error_file = error_file
        self._told = False
        os.set_inheritable(fd, False)

    def done(self) -> None:
        """Tell that the program came to its end."""
        self._send(DONE, b"", time.monotonic_ns())
        self._end_well()

    def value(self, value: object) -> bool:
        """Send the value of a function; False (and an error is sent) if it cannot be pickled."""
        at = time.monotonic_ns()
        try:
            body = encode_value(value)
        except Exception as e:
            from procession.worker.description import text_of

            kind, cls = "unpicklable", type_name(type(value))
            self.failing(kind, cls, at=at)
            message = f"{type_name(type(e))}: {text_of(e)}"
            self.error({"kind": kind, "type": cls, "message": message})
            return False
        self._send(VALUE, body, at)
        self._end_well()
        return True

    def _end_well(self) -> None:
        if self._account is not None:
            self._send(ACCOUNT, self._account(), time.monotonic_ns())
        self._close()

    def failing(self, kind: str, cls: str, code: int = 1, at: int | None = None) -> None:
        """Tell that the program failed, and how: what can be told without looking closely.

        kind: as in `describe`, or "exit" or "unpicklable". cls: the name of the class. code: the
        exit code that the rank is going to have. at: when, if it was not now.
        """
        global announced
        announced = code
        body = f"{kind}\0{code}\0{cls}".encode(errors="replace")
        self._send(FAILED, body, time.monotonic_ns() if at is None else at)

    def error(self, record: Record) -> None:
        """Tell how the program failed."""
        from procession.worker import description

        self._send(ERROR, description.encoded(record), time.monotonic_ns())
        self._close()
        if self._error_file and record.get("traceback"):
            description.write_error_file(self._error_file, record)

    def _send(self, kind: bytes, body: bytes, at: int) -> None:
        if os.getpid() != self._pid or self._fd < 0:
            return
        # A program that closes descriptors that it did not open may own this number by now.
        if self._identity is None or _identity(self._fd) != self._identity:
            self._fd = -1
            return
        view = memoryview(HEADER.pack(kind, len(body), at) + body)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            pass  # the launcher is gone, and so is this rank in a moment

    def _close(self) -> None:
        if os.getpid() == self._pid and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


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
    module, name = _plain(cls, "__module__"), _plain(cls, "__qualname__")
    return name if module in ("builtins", "__main__") else f"{module}.{name}"


def _plain(cls: type, what: str) -> str:
    try:
        text = getattr(cls, what)
    except BaseException:
        return "?"
    return text if type(text) is str else "?"
