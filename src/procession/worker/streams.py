"""`sys.stdin`, `sys.stdout` and `sys.stderr` of a rank, made anew."""

from __future__ import annotations

import io
import os
import sys


def replace() -> None:
    """Make a fork's three streams anew on descriptors 0, 1 and 2, as `python -u` would make them.

    They are not buffered: nothing that a rank wrote is lost, however the rank ends.
    """
    for name, make in _STREAMS.items():
        stream = make(io.TextIOWrapper.__new__(io.TextIOWrapper))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def renew() -> None:
    """Do the same as `replace`, but keep the objects with which this interpreter began.

    Modules may hold a reference to one of them: handlers of `logging` do.
    """
    for name, make in _STREAMS.items():
        first = getattr(sys, f"__{name}__")
        if type(first) is not io.TextIOWrapper:
            first = io.TextIOWrapper.__new__(io.TextIOWrapper)
        setattr(sys, name, make(first))
        setattr(sys, f"__{name}__", first)


def write_whole_lines() -> None:
    """Write whole lines: output of several ranks may go to the same terminal or file."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def identity(fd: int) -> tuple[int, int] | None:
    """Tell what is open under a number; None if nothing is."""
    try:
        found = os.fstat(fd)
    except OSError:
        return None  # the program has closed it
    return found.st_dev, found.st_ino


def _stdin(text: io.TextIOWrapper) -> io.TextIOWrapper:
    encoding, errors = _coding(sys.__stdin__, "strict")
    raw = io.FileIO(0, "r", closefd=False)
    raw.name = "<stdin>"
    text.__init__(io.BufferedReader(raw), encoding, errors, line_buffering=raw.isatty())
    text.__dict__["mode"] = "r"
    return text


def _stdout(text: io.TextIOWrapper) -> io.TextIOWrapper:
    raw = io.FileIO(1, "w", closefd=False)
    return _writer(text, raw, "<stdout>", *_coding(sys.__stdout__, "strict"))


def _stderr(text: io.TextIOWrapper) -> io.TextIOWrapper:
    raw = io.FileIO(2, "w", closefd=False)
    return _writer(text, raw, "<stderr>", *_coding(sys.__stderr__, "backslashreplace"))


def _writer(
    text: io.TextIOWrapper, raw: io.FileIO, name: str, encoding: str, errors: str
) -> io.TextIOWrapper:
    raw.name = name
    # A raw file below the text layer is what -u means; its protocol is enough for the writer.
    text.__init__(raw, encoding, errors, newline="\n", write_through=True)  # pyright: ignore[reportArgumentType]
    text.__dict__["mode"] = "w"
    return text


_STREAMS = {"stdin": _stdin, "stdout": _stdout, "stderr": _stderr}


def _coding(stream: object, errors: str) -> tuple[str, str]:
    """Take encoding and error handler from the stream that this interpreter began with."""
    if isinstance(stream, io.TextIOWrapper):
        return stream.encoding, stream.errors or errors
    return "utf-8", errors
