"""A cgroup (version 2) whose processes are killed together. Standard library only.

The kernel kills all of them when something is written to `cgroup.kill`, also those that are being
forked at that moment (Linux 5.14). Nothing leaves a cgroup that is not allowed to write to one
around it.
"""

from __future__ import annotations

import errno
import os
import time

PREFIX = "procession_"  # of their names
LOOK_EVERY = 0.002  # seconds
GOING_TIME = 5.0  # seconds that killed processes may take to be gone


def make(place: str, mark: str = "") -> str:
    """Make a cgroup below another one; gives its directory. Raises OSError.

    place: the directory of that other one. mark: of the launcher whose it is.
    """
    path = os.path.join(place, f"{PREFIX}{os.getpid()}_{os.urandom(4).hex()}@{mark}")
    try:
        os.mkdir(path, 0o755)
    except OSError as e:
        raise OSError(e.errno, f"{path}: {e.strerror}") from None
    if not os.path.exists(f"{path}/cgroup.kill"):
        os.rmdir(path)
        raise OSError(errno.ENOTSUP, "its cgroups have no cgroup.kill (Linux 5.14)")
    return path


def obstacle(place: str, mark: str = "") -> str:
    """Say why this process cannot have one below a cgroup, "" if it can. Leaves nothing.

    mark: of this process, by which one is found that it leaves if it is killed meanwhile. To put a
    process into it takes the right to write to the list of the one around it, too.
    """
    if not os.access(f"{place}/cgroup.procs", os.W_OK):
        return f"{place}/cgroup.procs: {os.strerror(errno.EACCES)}"
    try:
        path = make(place, mark)
    except OSError as e:
        return e.strerror or str(e)
    try:
        with open(f"{path}/cgroup.type", encoding="ascii") as f:
            kind = f.read().strip()
    except OSError as e:
        kind = str(e)
    finally:
        os.rmdir(path)
    return "" if kind == "domain" else f"its cgroups are of the type {kind!r}"


def find(top: str) -> list[tuple[str, str]]:
    """Find all that were made at a directory or below: the directory and the mark of each."""
    found: list[tuple[str, str]] = []
    for place, names, _ in os.walk(top):
        mine = [name for name in names if name.startswith(PREFIX) and "@" in name]
        found += [(os.path.join(place, name), name.partition("@")[2]) for name in mine]
    return sorted(found)


def join(path: str) -> None:
    """Put this process into it; what it forks is there, too. Raises OSError."""
    _write(f"{path}/cgroup.procs", b"0")


def kill(path: str) -> None:
    """Kill all that is in it. Raises OSError."""
    _write(f"{path}/cgroup.kill", b"1")


def end(path: str) -> bool:
    """Kill all that is in it, and remove it; whether that was done. Never raises."""
    until = time.monotonic() + GOING_TIME
    while True:
        try:
            kill(path)
            _remove(path)
            return True
        except FileNotFoundError:
            return True
        except OSError as e:
            # Processes that are killed leave it when they are reaped, by whomever.
            if e.errno != errno.EBUSY or time.monotonic() >= until:
                return False
        time.sleep(LOOK_EVERY)


def _remove(path: str) -> None:
    """Remove it, and those that were made in it. Raises OSError."""
    for place, _, _ in os.walk(path, topdown=False):
        os.rmdir(place)
    if os.path.isdir(path):  # it could not be read
        os.rmdir(path)


def _write(path: str, text: bytes) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text)
        finally:
            os.close(fd)
    except OSError as e:
        raise OSError(e.errno, f"{path}: {e.strerror}") from None
