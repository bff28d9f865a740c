"""The directories of one user: for sockets of living runs, records of past ones, and the cache.

Theory of operation. The directory of sockets must belong to the user alone, or somebody else could
put a socket of their own where a run is looked for. The directory is opened once and checked by its
descriptor; files in it are reached as /proc/self/fd/N/NAME. So nobody can replace the directory in
between, and a name fits into the 108 bytes of a socket's address, however long the path is.
"""

from __future__ import annotations

import os
import stat

MOST_BYTES = 80  # of a socket's name
OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Refused(Exception):
    """The directory for sockets is not the user's alone, or has no place. The text is one line."""


def runtime_directory() -> str:
    """Name the directory for sockets; it need not be there."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(given) and os.path.isdir(given):
        return os.path.join(given, "procession")
    uid = os.geteuid()
    if os.path.isdir(f"/run/user/{uid}"):
        return f"/run/user/{uid}/procession"
    place = os.environ.get("TMPDIR", "")
    place = place if os.path.isdir(place) else "/tmp"  # noqa: S108 - checked
    return os.path.join(place, f"procession-{uid}")


def state_directory() -> str:
    """Name the directory for the index and for runs that are detached; it need not be there.

    "" where this user has no home: without HOME, and unknown to the system (containers).
    """
    return _of_user("XDG_STATE_HOME", ".local/state")


def _of_user(variable: str, below_home: str) -> str:
    place = os.environ.get(variable, "")
    if not os.path.isabs(place):
        place = os.path.join(os.path.expanduser("~"), below_home)
    return os.path.join(place, "procession") if os.path.isabs(place) else ""


def open_runtime(*, make: bool) -> int:
    """Open the directory for sockets, made first if it is missing and `make` says so.

    Raises Refused if it is not this user's alone or has no place, OSError if it cannot be had.
    """
    path = runtime_directory()
    if make:
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
        except FileNotFoundError:
            raise Refused(f"there is no directory {os.path.dirname(path)}") from None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | OPEN)
    except NotADirectoryError:  # O_NOFOLLOW gives this for a symbolic link, too
        raise Refused(f"{path} is a link, or no directory") from None
    found = os.fstat(fd)
    if found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077:
        return fd
    os.close(fd)
    if found.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to user {found.st_uid}")
    raise Refused(f"others may enter {path}: chmod 700 it")


def inside(directory: int, name: str) -> str:
    """Give a short path of what is in an open directory."""
    return f"/proc/self/fd/{directory}/{name}"


def socket_name(run: str) -> str:
    """Give the name of a run's socket: its id, shortened where it is too long."""
    name = run.replace("/", "_").replace("\0", "_").lstrip(".") or "run"
    return os.fsdecode(os.fsencode(name)[:MOST_BYTES])


def read_cached(directory: str, name: str) -> bytes | None:
    """Read a file of the user's cache; None if there is none that only this user can change.

    directory: its name below the user's cache directory.
    """
    try:
        fd = os.open(os.path.join(_cache(directory), name), os.O_RDONLY | OPEN)
        with open(fd, "rb") as f:
            found = os.fstat(fd)
            ours = found.st_uid == os.geteuid() and not found.st_mode & 0o022
            return f.read() if ours and stat.S_ISREG(found.st_mode) else None
    except OSError:
        return None


def write_cached(directory: str, name: str, text: bytes) -> None:
    """Write a file, in place of an older one; a reader sees one or the other.

    Nothing is written where that is impossible.
    """
    try:
        place = _cache(directory)
        os.makedirs(place, 0o700, exist_ok=True)
        draft = os.path.join(place, f".{name}.{os.urandom(4).hex()}")
        try:
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN, 0o600)
            with open(fd, "wb") as f:
                f.write(text)
            os.replace(draft, os.path.join(place, name))
        except OSError:
            os.unlink(draft)
    except OSError:
        pass  # no home, no space, or no permission


def _cache(directory: str) -> str:
    """Name a directory for files that may be lost. Raises OSError where there is no home."""
    place = _of_user("XDG_CACHE_HOME", ".cache")
    if not place:
        raise FileNotFoundError("no home directory")
    return os.path.join(place, directory)
