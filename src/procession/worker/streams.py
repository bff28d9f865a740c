"""`sys.stdin`, `sys.stdout` and `sys.stderr` of a forked rank, as `python -u` would make them."""

from __future__ import annotations

import io
import sys


def replace() -> None:
    """Make the three streams anew on descriptors 0, 1 and 2; output is unbuffered.

    What a rank wrote is on its way before the next statement runs, however the rank ends.
    """
    sys.stdin = sys.__stdin__ = _reader()
    sys.stdout = sys.__stdout__ = _writer(1, "<stdout>", "strict")
    sys.stderr = sys.__stderr__ = _writer(2, "<stderr>", "backslashreplace")


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
