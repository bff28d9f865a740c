"""What goes over a run's socket: one JSON object in each line, in both directions. Pure.

A client asks, and each request has one answer:

    {"procession": 1, "ask": "look"}
    {"procession": 1, "to": "look", "value": {...}}      or, with "error" for "value", why not

The methods of `serve.Visit` say what each request takes. Between answers come events, which a
client may pass over:

    {"procession": 1, "event": "log", "stream": "out", "text": "..."}    after the request "log"
    {"procession": 1, "event": "left_out", "lines": 512}                 it was too slow
    {"procession": 1, "event": "over", "state": "FAILED"}                no rank runs any more
    {"procession": 1, "event": "end", "state": ..., "code": 1, "report": "..."}    the last line

Text is UTF-8; bytes that are not are lone surrogates, as `os.fsdecode` makes them.
"""

from __future__ import annotations

import json
from typing import Any, cast

VERSION = 1


def encode(fields: dict[str, Any]) -> bytes:
    """Write one line."""
    return json.dumps({"procession": VERSION, **fields}, default=repr).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Read one line. Raises ValueError for what is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not a line of JSON") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    said = cast("dict[str, Any]", found)
    if said.get("procession") != VERSION:
        raise ValueError(f"version {said.get('procession')!r} is not known here, only {VERSION}")
    return said


class Lines:
    """Cuts what comes into lines. Raises ValueError for one that does not end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; gives the lines that they complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self._most:
            raise ValueError(f"a line of more than {self._most} bytes")
        return lines
