"""`sys.stdin`, `sys.stdout` and `sys.stderr` of a rank, made anew."""

from __future__ import annotations

import io
import sys

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

_STREAMS = {"stdin": "strict", "stdout": "strict", "stderr": "backslashreplace"}


def renew() -> None:
    """Make the three streams anew on descriptors 0, 1 and 2, as `python -u` would make them.

    They are not buffered: nothing that a rank wrote is lost, however the rank ends. The objects
    with which this interpreter began stay, since modules may hold a reference to one of them:
    handlers of `logging` do. So do encoding and error handler.
    """
    for fd, (name, errors) in enumerate(_STREAMS.items()):
        first: Any = getattr(sys, f"__{name}__")
        coding = "utf-8", errors
        if isinstance(first, io.TextIOWrapper):
            coding = first.encoding, first.errors or errors
        text = _plain_text(first)
        mode = "w" if fd else "r"
        raw = io.FileIO(fd, mode, closefd=False)
        raw.name = f"<{name}>"
        if fd:
            # A raw file below the text layer is what -u means; its protocol is enough for it.
            text.__init__(raw, *coding, newline="\n", write_through=True)
        else:
            text.__init__(io.BufferedReader(raw), *coding, line_buffering=raw.isatty())
        text.__dict__["mode"] = mode
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)


def _plain_text(stream: Any) -> Any:
    if type(stream) is io.TextIOWrapper:
        return stream
    return io.TextIOWrapper.__new__(io.TextIOWrapper)


def write_whole_lines() -> None:
    """Write whole lines: output of several ranks may go to the same terminal or file."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)
