"""The runs that have a directory, the last of them: a line for each, in the user's state directory.

`$XDG_STATE_HOME/procession/runs.jsonl` (~/.local/state). A launch appends one line and reads
nothing. What grows beyond a limit is cut by the launch that finds it so, and by whoever lists.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, cast

from procession.control.place import state_directory
from procession.system.identity import own_mark

KEPT = 200  # runs
MOST_BYTES = 256 << 10
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def index_path() -> str:
    """Name the file; it need not be there."""
    return os.path.join(state_directory(), "runs.jsonl")


def note_run(run: str, directory: str, name: str) -> None:
    """Add a run that begins. What goes wrong with it is no fault of the run."""
    entry = {
        "run": run,
        "dir": os.path.abspath(directory),
        "name": name,
        "launcher": own_mark(),
        "began": round(time.time(), 3),
    }
    line = json.dumps(entry).encode() + b"\n"
    try:
        try:
            fd = os.open(index_path(), _FLAGS, 0o600)
        except FileNotFoundError:
            os.makedirs(state_directory(), 0o700, exist_ok=True)
            fd = os.open(index_path(), _FLAGS, 0o600)
        try:
            os.write(fd, line)
            full = os.lseek(fd, 0, os.SEEK_CUR) > MOST_BYTES
        finally:
            os.close(fd)
        if full:
            read_index(shorten=True)
    except OSError:
        pass  # a full disk, or a home that cannot be written to


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
        return {}  # of a disk that was full
    if not isinstance(entry, dict):
        return {}
    said = cast("dict[str, Any]", entry)
    return said if isinstance(said.get("dir"), str) and isinstance(said.get("run"), str) else {}


def _write(entries: list[dict[str, Any]]) -> None:
    """Write it anew; a run that begins in this moment may be missed, and is found by its path."""
    path = f"{index_path()}.{os.getpid()}"
    try:
        with open(os.open(path, _FLAGS | os.O_EXCL, 0o600), "wb") as f:
            f.writelines(json.dumps(entry).encode() + b"\n" for entry in entries)
        os.rename(path, index_path())
    except OSError:
        pass  # it stays as long as it is


__all__ = ["index_path", "note_run", "read_index"]
