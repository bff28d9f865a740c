"""What goes over a run's socket: one JSON object in each line, in both directions. Pure.

A client asks, and each request has one answer:

    {"procession": 1, "ask": "look"}
    {"procession": 1, "to": "look", "value": {...}}      or, with "error" for "value", why not

Between answers come events, which a client may pass over:

    {"procession": 1, "event": "log", "stream": "out", "text": "..."}    after the request "log"
    {"procession": 1, "event": "left_out", "lines": 512}                 it was too slow
    {"procession": 1, "event": "over", "state": "FAILED", "look": {...}}  no rank runs any more;
                             the last look at it, if the run is on this machine alone
    {"procession": 1, "event": "end", "state": ..., "code": 1, "report": "..."}    the last line

Text is UTF-8; bytes that are not are lone surrogates, as `os.fsdecode` makes them.
"""

from __future__ import annotations

import json
from typing import Any, cast

VERSION = 1
MOST_LINE = 64 << 10  # bytes of a request
_NUMBER, _SECONDS, _FLAG = "a number", "seconds", "true or false"

# The fields of each request. All but those with "!" are optional.
REQUESTS: dict[str, dict[str, str]] = {
    "look": {},
    "log": {"lines": _NUMBER, "follow": _FLAG},
    "stop": {"signal": _NUMBER, "grace": _SECONDS},
    "kill": {},
    "signal": {"rank": f"{_NUMBER}!", "signal": f"{_NUMBER}!"},
    "report": {},
    "stacks": {"native": _FLAG},
}


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


def read_request(line: bytes) -> tuple[str, dict[str, Any]]:
    """Read a request: its name, and what was given with it. Raises ValueError with the reason."""
    said = decode(line)
    name = said.pop("ask", None)
    del said["procession"]
    if not isinstance(name, str) or name not in REQUESTS:
        raise ValueError(f"there is no request {str(name)[:40]!r}")
    known = REQUESTS[name]
    for field, value in said.items():
        if field not in known:
            raise ValueError(f"{name}: there is no {field[:40]!r}")
        _check(name, field, value, known[field].rstrip("!"))
    for field, kind in known.items():
        if kind.endswith("!") and said.get(field) is None:
            raise ValueError(f"{name}: {field} is missing")
    return name, said


def _check(name: str, field: str, value: object, kind: str) -> None:
    good = value is None
    if kind == _FLAG:
        good = good or isinstance(value, bool)
    elif kind == _NUMBER:
        good = good or (type(value) is int and 0 <= value < 1 << 31)
    else:
        good = good or (type(value) in (int, float) and 0 <= cast("float", value) < 1e9)
    if not good:
        raise ValueError(f"{name}: {field} must be {kind}, not {str(value)[:40]!r}")


class Lines:
    """Cuts what comes into lines. Raises ValueError for one that does not end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; gives the lines that they complete."""
        self._rest += data
        *lines, rest = bytes(self._rest).split(b"\n") if b"\n" in data else (bytes(self._rest),)
        if b"\n" in data:
            self._rest = bytearray(rest)
        if len(self._rest) > self._most or any(len(line) > self._most for line in lines):
            raise ValueError(f"a line of more than {self._most} bytes")
        return lines
