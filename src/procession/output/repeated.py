"""Finds in what a rank wrote what the report says of it: its traceback, or the frames of its crash.

Pure. A traceback may have less frames where it was logged: the exception was on its way. Of several
exceptions that are causes of each other, each may have been logged by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from procession.output.text import CRASH, uncoloured

_NUMBER = re.compile(rb"^\[rank\d+\]: ")  # torch puts it before each line
_NUMBER_AT_END = re.compile(rb"\[rank\d+\]: $")
_CRASH = CRASH.encode()
_TRACEBACK, _GROUP = b"Traceback (most recent call last):", b"  + Exception Group Traceback"
_POOL = rb"[\w.]*RemoteTraceback: ?"  # of a worker of a pool: above its traceback
_HEAD = re.compile(
    rb"(?m)^.*" + re.escape(_TRACEBACK) + rb"\s*?$"  # behind a progress bar, for example
    rb"|^(?:\[rank\d+\]: )?(?:" + re.escape(_GROUP) + rb"|" + _CRASH + rb"|" + _POOL + rb"$)"
)
_TIMES = re.compile(rb"\[Previous line repeated \d+ more times?\]")
_FRAMES = re.compile(
    _CRASH + rb"|Current thread |Thread 0x|Python runtime state: |Extension modules: |  \S|\s*$"
)


def plain_lines(text: bytes) -> list[bytes]:
    """Give the lines of a text so that they can be compared."""
    return [_plain(line) for line in text.rstrip().splitlines()]


def _plain(line: bytes) -> bytes:
    return _TIMES.sub(b"", _NUMBER.sub(b"", uncoloured(line)).rstrip())


def is_crash(text: bytes) -> bool:
    """Whether `faulthandler` has begun to write of a crash."""
    return _CRASH in text


def begins_at(text: bytes, first: bytes) -> int:
    """Find the line in which a traceback or the frames of a crash begin, -1 for nowhere.

    first: the first line of one that is known, b"" for none: that of a syntax error has no head.
    """
    looks = b"Traceback" in text or _CRASH in text
    found = [m.start()] if looks and (m := _HEAD.search(text)) else []
    if first and first in text:
        found.append(text.rfind(b"\n", 0, text.index(first)) + 1)
    return min(found, default=-1)


def before_traceback(line: bytes) -> bytes:
    """Give what stands in a line before a traceback begins there, b"" if none does."""
    before, found, _ = line.partition(_GROUP if _GROUP in line else _TRACEBACK)
    return _NUMBER_AT_END.sub(b"", before) if found else b""


def without(
    lines: Sequence[bytes], told: Sequence[bytes], *, cut: bool = False
) -> tuple[list[bytes], list[bytes]]:
    """Take a traceback out, wherever it stands in lines; what stands before it in a line stays.

    Gives the other lines, and those that were taken out.

    told: that of the report, as `plain_lines` gives it; nothing: the frames of a crash. cut: the
    beginning of the first lines may be missing.
    """
    plain, kept, out, at = [_plain(line) for line in lines], list[bytes](), list[bytes](), 0
    ends = [*(n for n, line in enumerate(told) if n and not line), len(told)]
    while at < len(lines):
        before = before_traceback(plain[at])
        plain[at] = plain[at][len(before) :]
        count = _repeated(plain, at, told, ends) if told else _crash(plain, at)
        if not count and cut and not at:
            count = max(_cut_off(plain, told[:end]) for end in ends)
        if not count:
            kept.append(lines[at])
        elif before:
            kept.append(before_traceback(lines[at]) + b"\n"[: lines[at].endswith(b"\n")])
        out += lines[at : at + count]
        at += count or 1
    return kept, out


def _repeated(plain: Sequence[bytes], at: int, told: Sequence[bytes], ends: Sequence[int]) -> int:
    """Count the lines that repeat a traceback, from one on. ends: where its parts end."""
    if plain[at] == told[0] and plain[at : at + len(told)] == told:
        return len(told)
    if plain[at].startswith((_TRACEBACK, _GROUP)):
        for end in reversed(ends):
            for count in range(end - 1, 0, -1):
                last = plain[at + count] if at + count < len(plain) else None
                if (
                    last == told[end - 1]
                    and plain[at + 1 : at + 1 + count] == told[end - count : end]
                ):
                    return 1 + count
    return 0


def _cut_off(plain: Sequence[bytes], told: Sequence[bytes]) -> int:
    """Count the first lines that repeat the end of a traceback, whose beginning is missing."""
    counts = range(min(len(told) - 1, len(plain)), 0, -1)
    return next((n for n in counts if plain[:n] == told[-n:]), 0)


def _crash(plain: Sequence[bytes], at: int) -> int:
    """Count the lines that `faulthandler` has written of a crash, from one on."""
    end = at
    if plain[at].startswith(_CRASH):
        while end < len(plain) and _FRAMES.match(plain[end]):
            end += 1
    return end - at
