"""The latest runs that have a directory, by their ids: `$XDG_STATE_HOME/procession/runs/<id>`.

Detached runs have their directories there (~/.local/state by default), others a link to theirs.
What is known of a run is in its directory.
"""

from __future__ import annotations

import os

from procession.system.directories import socket_name, state_directory

KEPT = 200  # runs


def note_run(run: str, directory: str) -> None:
    """Add a run that begins. Errors are ignored: the run does not depend on the index."""
    place = _place()
    try:
        os.makedirs(place, 0o700, exist_ok=True)
        os.symlink(os.path.abspath(directory), os.path.join(place, socket_name(run)))
    except OSError:
        pass  # it is there; a full disk, no home, or a home that is read-only


def _place() -> str:
    directory = state_directory()
    return os.path.join(directory, "runs") if directory else ""


def past_runs() -> dict[str, str]:
    """Give the directories of the latest runs by their ids, the oldest first; drop older links."""
    try:
        with os.scandir(_place()) as found:
            entries = sorted(found, key=lambda e: e.stat(follow_symlinks=False).st_mtime)
        for entry in entries[:-KEPT]:
            if entry.is_symlink():
                os.unlink(entry.path)
    except OSError:
        return {}
    return {
        entry.name: os.readlink(entry.path) if entry.is_symlink() else entry.path
        for entry in entries[-KEPT:]
        if entry.is_dir()
    }
