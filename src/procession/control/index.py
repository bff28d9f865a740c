"""The latest runs that have a directory: one line for each, in the user's state directory.

`$XDG_STATE_HOME/procession/runs.jsonl` (~/.local/state). A launch appends one line and reads
nothing. A file that has grown beyond a limit is shortened by the next launch or listing.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, cast

from procession.system.directories import state_directory
from procession.system.identity import own_mark
from procession.system.origin import origin

KEPT = 200  # runs
MOST_BYTES = 256 << 10
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def index_path() -> str:
    """Name the file; it need not be there. "" where it has no place."""
    directory = state_directory()
    return os.path.join(directory, "runs.jsonl") if directory else ""


def note_run(run: str, directory: str, name: str) -> None:
    """Add a run that begins. Errors are ignored: the run does not depend on the index."""
    entry = {
        "run": run,
        "dir": os.path.abspath(directory),
        "name": name,
        "launcher": own_mark(),
        "began": round(time.time(), 3),
        **origin(),
    }
    try:
        if not os.path.isdir(state_directory()):
            os.makedirs(state_directory(), 0o700, exist_ok=True)
        fd = os.open(index_path(), _FLAGS, 0o600)
        try:
            os.write(fd, json.dumps(entry).encode() + b"\n")
            size = os.lseek(fd, 0, os.SEEK_CUR)
        finally:
            os.close(fd)
    except OSError:
        return  # a full disk, or a home that is read-only
    if size > MOST_BYTES:
        read_index(shorten=True)


def read_index(*, shorten: bool = False) -> list[dict[str, Any]]:
    """Give the runs whose directories are still there, the newest last.

    shorten: also cut the file, if it holds many more.
    """
    try:
        with open(index_path(), "rb") as f:
            lines = f.read(8 * MOST_BYTES).splitlines()
    except OSError:
        return []
    found = {str(e["dir"]): e for e in map(_entry, lines) if e and os.path.isdir(str(e["dir"]))}
    entries = list(found.values())[-KEPT:]
    if shorten and len(lines) > 2 * KEPT:
        _write(entries)
    return entries


def _entry(line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}  # cut off: the disk was full
    if not isinstance(entry, dict):
        return {}
    said = cast("dict[str, Any]", entry)
    return said if isinstance(said.get("dir"), str) and isinstance(said.get("run"), str) else {}


def _write(entries: list[dict[str, Any]]) -> None:
    """Replace the file; a run that begins just now may be missing, and is found by its path."""
    path = f"{index_path()}.{os.getpid()}"
    try:
        with open(os.open(path, _FLAGS | os.O_EXCL, 0o600), "wb") as f:
            f.writelines(json.dumps(entry).encode() + b"\n" for entry in entries)
        os.rename(path, index_path())
    except OSError:
        pass  # the old file stays
