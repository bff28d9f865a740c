"""`sys.stdin`, `sys.stdout` and `sys.stderr` of a rank: made anew, and how they hold back lines."""

from __future__ import annotations

import io
import sys


def replace() -> None:
    """Make a fork's three streams anew on descriptors 0, 1 and 2, as `python -u` would make them.

    What a rank wrote is on its way before the next statement runs, however the rank ends.
    """
    sys.stdin = sys.__stdin__ = _reader()
    sys.stdout = sys.__stdout__ = _writer(1, "<stdout>", "strict")
    sys.stderr = sys.__stderr__ = _writer(2, "<stderr>", "backslashreplace")


def write_whole_lines() -> None:
    """Have lines of output written as a whole: those of several ranks may go to one place."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def _reader() -> io.TextIOWrapper:
    encoding, errors = _coding(sys.__stdin__, "strict")
    raw = io.FileIO(0, "r", closefd=False)
    raw.name = "<stdin>"
    text = io.TextIOWrapper(io.BufferedReader(raw), encoding, errors, line_buffering=raw.isatty())
    text.__dict__["mode"] = "r"
    return text


def _writer(fd: int, name: str, default_errors: str) -> io.TextIOWrapper:
    old = sys.__stdout__ if fd == 1 else sys.__stderr__
    encoding, errors = _coding(old, default_errors)
    raw = io.FileIO(fd, "w", closefd=False)
    raw.name = name
    # A raw file below the text layer is what -u means; its protocol is enough for the writer.
    text = io.TextIOWrapper(raw, encoding, errors, newline="\n", write_through=True)  # pyright: ignore[reportArgumentType]
    text.__dict__["mode"] = "w"
    return text


def _coding(stream: object, errors: str) -> tuple[str, str]:
    """Take encoding and error handler from the stream that this interpreter began with."""
    if isinstance(stream, io.TextIOWrapper):
        return stream.encoding, stream.errors or errors
    return "utf-8", errors
