"""The description of an exception: its text, and the parts from which it can be rebuilt.

A description runs code of the exception's own classes (`__str__`, `__reduce__`, a property). It
must not hide the exception: if that code raises anything, SystemExit and KeyboardInterrupt
included, only this part of the description is missing.
"""

from __future__ import annotations

import binascii
import io
import json
import os
import pickle
import signal
import sys
import time
import traceback

from procession.worker import byvalue

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    Record = dict[str, Any]

# The modules above are imported before the program runs: a program that fails may have used up its
# descriptors, or replaced one of these modules.

KEPT = 30_000  # characters of each end of a text that is too long; JSON may need 12 bytes for one
LITTLE = 1000  # MB of shared memory
DYING = 0.1  # seconds in which a child that closed its pipes can be waited for
ENLARGE = "if it was full, make it larger (docker run --shm-size=8g) or set num_workers=0"
# The bootstrap, and what it starts a program with (a file in Python 3.10, frozen since).
_OUR_FILES = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.join(os.path.dirname(os.__file__), "runpy.py"),
    "<frozen runpy>",
    "<frozen importlib",
)


def text_of(error: object) -> str:
    """Give `str(error)`, also where that raises; of one that is too long, both ends."""
    try:
        return _cut(str(error) + "")
    except BaseException as e:
        return f"<its text cannot be had: {type_name(type(e))}>"


def _cut(text: str) -> str:
    if len(text) <= 2 * KEPT:
        return text
    return f"{text[:KEPT]}\n... {len(text) - 2 * KEPT} characters are left out ...\n{text[-KEPT:]}"


def encode_value(value: object) -> bytes:
    """Pickle a value; what the launcher defined in its `__main__` is pickled by value."""
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:
        # The library was imported already if the function itself came by value, else not.
        cloudpickle = sys.modules.get("cloudpickle")
        if cloudpickle is None:
            raise
        buffer = io.BytesIO()
        byvalue.pickler(cloudpickle, {})(buffer, protocol=5).dump(value)
        return buffer.getvalue()


def type_name(cls: type) -> str:
    """Name a class as Python's own tracebacks do."""
    name = cls.__qualname__
    return name if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{name}"


def own_frames_cut(tb: TracebackType | None) -> TracebackType | None:
    """Leave out the frames of the bootstrap, which come first."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_OUR_FILES):
        tb = tb.tb_next
    return tb


def kind_of(error: BaseException) -> str:
    """Give the kind under which an exception is reported."""
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "raised"


def describe(error: BaseException, *, rebuildable: bool) -> Record:
    """Describe an exception: its full text, and, if `rebuildable`, what it can be rebuilt from."""
    record: Record = {
        "kind": kind_of(error),
        "type": type_name(type(error)),
        "message": text_of(error),
    }
    record["traceback"] = _full_text(error, record)
    try:
        if isinstance(error, OSError) and isinstance(error.errno, int):
            record["errno"] = int(error.errno)
        if rebuildable:
            record |= _parts(error)
        record["children"] = killed_children(record["traceback"])
    except BaseException:
        pass  # then there is only the text
    return record


def killed_children(text: str) -> str:
    """Say which children a signal has ended, and how full /dev/shm is where that may be why.

    text: the traceback. The children are those of `multiprocessing`: also workers of torch's
    DataLoader, and of a pool that is not shut down yet. SIGTERM does not count: it is how the
    program itself ends them. The pipes of a child that is killed close a moment before it can be
    waited for: one that still lives is looked at again for `DYING` seconds.
    """
    process: Any = sys.modules.get("multiprocessing.process")
    ours = [c for c in list(getattr(process, "_dangling", ())) if c._parent_pid == os.getpid()]
    until = time.monotonic() + DYING
    while not (said := _killed(ours)) and any(map(_lives, ours)) and time.monotonic() < until:
        time.sleep(0.005)
    if "SIGBUS" in str(said) or "shared memory" in text:
        said += shared_memory()
    return "; ".join(said)


def _lives(child: Any) -> bool:
    return getattr(getattr(child, "_popen", None), "returncode", 0) is None


def _killed(children: list[Any]) -> list[str]:
    said: list[str] = []
    for child in children:
        try:
            code = int(child.exitcode or 0)
            if code < 0 and -code != signal.SIGTERM:
                name = signal.Signals(-code).name
                said.append(f"its child (pid {child.pid}) was killed by {name}")
        except (ValueError, AttributeError):
            continue  # it was closed, or the signal has no name
    return said


def shared_memory() -> list[str]:
    """Say how full /dev/shm is; nothing if there is none."""
    try:
        found = os.statvfs("/dev/shm")  # noqa: S108 - only looked at
    except OSError:
        return []
    free, size = (n * found.f_frsize / 1e6 for n in (found.f_bavail, found.f_blocks))
    said = f"/dev/shm has {free:.1f} MB free of {size:.1f} MB"  # noqa: S108
    return [f"{said}: {ENLARGE}" if free < LITTLE else said]


def _full_text(error: BaseException, record: Record) -> str:
    try:
        error.__traceback__ = own_frames_cut(error.__traceback__)
        whole = traceback.format_exception(type(error), error, error.__traceback__)
        return _cut("".join(whole))
    except BaseException as e:
        reason = f"<its traceback cannot be had in full: {type_name(type(e))}>\n"
        return f"{record['type']}: {record['message']}\n{reason}"


def _parts(error: BaseException) -> Record:
    """Take an exception apart; those that it is linked to are in the text alone."""
    record: Record = {"frames": _frames(error.__traceback__)}
    for name, take_apart in (("pickle", _by_pickle), ("state", _by_state)):
        try:
            body = take_apart(error)
        except BaseException:  # noqa: S112
            continue  # a class or an attribute that does not pickle
        record[name] = binascii.b2a_base64(body, newline=False).decode("ascii")
        break
    return record


def _by_pickle(error: BaseException) -> bytes:
    body = encode_value(error)
    # Many classes pickle, but do not unpickle, or only with another text, because their constructor
    # takes other arguments than it passes to that of Exception.
    again = pickle.loads(body)
    if type(again) is not type(error) or text_of(again) != text_of(error):
        raise ValueError
    return body


def _by_state(error: BaseException) -> bytes:
    body = encode_value((type(error), error.args, error.__dict__))
    pickle.loads(body)
    return body


def _frames(tb: TracebackType | None) -> list[tuple[str, str, int]]:
    frames: list[tuple[str, str, int]] = []
    while tb is not None:
        code = tb.tb_frame.f_code
        frames.append((code.co_filename, code.co_name, tb.tb_lineno))
        tb = tb.tb_next
    return frames


def encoded(record: Record) -> bytes:
    """Give the bytes of a description. The program may have a `json` of its own; this is ours."""
    return json.dumps(record).encode("ascii")


def error_file_data(message: str, callstack: str) -> Record:
    """Give what stands in an error file, in the form that torch's launcher reads."""
    extra = {"py_callstack": callstack, "timestamp": str(int(time.time()))}
    return {"message": {"message": message, "extraInfo": extra}}


def write_error_file(path: str, record: Record) -> None:
    """Write what torch's `record` would have written, unless it did."""
    message = f"{record['type'].rpartition('.')[2]}: {record['message']}"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="ascii") as f:
            json.dump(error_file_data(message, record["traceback"]), f)
    except OSError:
        pass  # the file exists, or the disk is full: the launcher has it from the pipe
