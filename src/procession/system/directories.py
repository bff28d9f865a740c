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
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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
    given = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(given):
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            return ""
        given = os.path.join(home, ".local", "state")
    return os.path.join(given, "procession")


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
        fd = os.open(path, _FLAGS)
    except NotADirectoryError:  # O_NOFOLLOW gives this for a symbolic link, too
        raise Refused(f"{path} is a link, or no directory") from None
    found = os.fstat(fd)
    if found.st_uid != os.geteuid():
        os.close(fd)
        raise Refused(f"{path} belongs to user {found.st_uid}")
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.close(fd)
        raise Refused(f"others may enter {path}: chmod 700 it")
    return fd


def inside(directory: int, name: str) -> str:
    """Give a short path of what is in an open directory."""
    return f"/proc/self/fd/{directory}/{name}"


def socket_name(run: str) -> str:
    """Give the name of a run's socket: its id, shortened where it is too long."""
    name = run.replace("/", "_").replace("\0", "_").lstrip(".") or "run"
    return os.fsdecode(os.fsencode(name)[:MOST_BYTES])


OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def read_cached(directory: str, name: str, largest: int) -> bytes | None:
    """Read a file of at most `largest` bytes; None if there is none that only this user can change.

    directory: its name below the user's cache directory.
    """
    at = _open_directory(directory, make=False)
    if at is None:
        return None
    try:
        return _read_file(at, name, largest)
    finally:
        os.close(at)


def write_cached(directory: str, name: str, text: bytes) -> None:
    """Write a file, in place of an older one; a reader sees one or the other.

    Nothing is written where that is impossible.
    """
    at = _open_directory(directory, make=True)
    if at is None:
        return
    try:
        _write_file(at, name, text)
    except OSError:
        pass  # no space, or no permission any more
    finally:
        os.close(at)


def _open_directory(name: str, *, make: bool) -> int | None:
    """Open a directory of ours for files; None if there is none that only this user can change."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        home = os.environ.get("HOME", "")
        if not os.path.isabs(home):
            return None
        cache = os.path.join(home, ".cache")
    try:
        if make:
            os.makedirs(cache, mode=0o700, exist_ok=True)
        at = os.open(cache, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    for each in ("procession", name):
        try:
            if make:
                try:
                    os.mkdir(each, 0o700, dir_fd=at)
                except FileExistsError:
                    pass
            below = os.open(each, os.O_RDONLY | os.O_DIRECTORY | OPEN, dir_fd=at)
        except OSError:
            return None
        finally:
            os.close(at)
        at = below
        if not _is_ours(os.fstat(at)):
            os.close(at)
            return None
    return at


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _read_file(directory: int, name: str, largest: int) -> bytes | None:
    try:
        fd = os.open(name, os.O_RDONLY | OPEN, dir_fd=directory)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not (stat.S_ISREG(status.st_mode) and _is_ours(status)):
            return None
        with open(fd, "rb", closefd=False) as f:
            text = f.read(largest + 1)
    except OSError:
        return None
    finally:
        os.close(fd)
    return text if len(text) <= largest else None


def _write_file(directory: int, name: str, text: bytes) -> None:
    draft = f".{name}.{os.getpid()}.{os.urandom(4).hex()}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN, 0o600, dir_fd=directory)
    try:
        with open(fd, "wb") as f:
            f.write(text)
        os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        os.unlink(draft, dir_fd=directory)
        raise
