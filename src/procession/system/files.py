"""Files: the small ones of /proc and /sys, errors and the room for them; and own descriptors.

Standard library only. Unless said otherwise, nothing here raises: None stands for what cannot be
read. A root directory lets tests show another machine.
"""

from __future__ import annotations

import errno
import io
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STAT_BYTES = 4096  # more than /proc/<pid>/stat has
_TEXT: Any = io.TextIOWrapper
_BUFFERS: Any = (io.BufferedWriter, io.BufferedRandom)


def read(path: str, root: str = "/") -> str | None:
    """Read a small file whole, without the white space around it."""
    try:
        with open(os.path.join(root, path.lstrip("/")), "rb") as f:
            return f.read().decode(errors="replace").strip()
    except (OSError, ValueError):
        return None


def field(path: str, name: str, root: str = "/") -> int | None:
    """Read the number behind `name` in a file like /proc/meminfo, in bytes if it is in kB."""
    count, _, unit = pairs(path, ":", root).get(name, "").partition(" ")
    return int(count) * (1024 if unit == "kB" else 1) if count.isdecimal() else None


def pairs(path: str, separator: str, root: str = "/") -> dict[str, str]:
    """Read a file of lines `name<separator>value`; {} if there is none."""
    lines = (read(path, root) or "").splitlines()
    return {n.strip(): v.strip() for n, _, v in (line.partition(separator) for line in lines)}


def entries(directory: str, pattern: str, root: str = "/") -> list[str]:
    """List what is in a directory and matches a pattern, in the order of the numbers in it."""
    import re

    try:
        found = os.listdir(os.path.join(root, directory.lstrip("/")))
    except OSError:
        return []
    matching = [name for name in found if re.fullmatch(pattern, name)]
    return sorted(matching, key=lambda n: [int(d, 16) for d in re.findall("[0-9a-fA-F]+", n)])


def process_fields(pid: int | str) -> list[bytes]:
    """Give the fields of /proc/<pid>/stat from the state on; [] if the process is gone.

    Raises OSError, so that a caller can tell a hidden process from one that is gone.
    """
    try:
        # Not `open`, which asks the kernel four times more: this is read of many, while they die.
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, STAT_BYTES).rpartition(b")")[2].split()
        finally:
            os.close(fd)
    except (FileNotFoundError, ProcessLookupError):
        return []


REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL)


def named(facility: str, e: OSError) -> OSError:
    """Give the error that names a facility, if it is missing or refused; else the same one."""
    if e.errno not in REFUSED:
        return e
    return OSError(
        e.errno,
        f"{facility} is missing or refused here ({os.strerror(e.errno)}); `procession doctor` "
        "tells what works, and what helps",
    )


# Errors of a write where the disk is full, or a quota or the size limit of files is reached.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def disk_is_full(path: str) -> bool:
    """Tell whether the file system of `path` has no room for a block of this user."""
    try:
        found = os.statvfs(path)
    except OSError:
        return False
    return found.f_blocks > 0 and not (found.f_bavail if os.geteuid() else found.f_bfree)


# -- descriptors of this process: all, the standard ones, those to which streams of `io` lead


def descriptors() -> set[int]:
    """List the open descriptors of this process. Raises OSError where there is no /proc."""
    found: set[int] = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
            found.add(int(name))
        except OSError:
            pass  # the listing's own
    return found


def fill_standard() -> list[int]:
    """Open /dev/null on those of the descriptors 0 to 2 that are closed; gives which.

    Otherwise the next socket or file that is opened would become the standard output of a program.
    The caller closes them. Raises OSError.
    """
    filled: list[int] = []
    for fd in range(3):
        # Nothing is opened where nothing is missing: a KeyboardInterrupt could leave it open.
        try:
            os.fstat(fd)
        except OSError:
            filled.append(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))  # the lowest free number
    return filled


def descriptor_of(stream: Any) -> int | None:
    """Give the descriptor to which a stream of the io module leads, None for any other object."""
    try:
        # Not a subclass that wants to see what is written.
        if getattr(stream.__class__, "write", None) is _TEXT.write:
            stream = stream.buffer
        if isinstance(stream, _BUFFERS):
            stream = stream.raw
        return stream.fileno() if issubclass(stream.__class__, io.FileIO) else None
    except ValueError:
        return None  # closed or detached


def leads_to(stream: Any, fd: int) -> bool:
    """Whether what is written to `stream` goes where descriptor `fd` goes."""
    own = descriptor_of(stream)
    if own is None:
        return False
    try:
        return own == fd or os.path.sameopenfile(own, fd)
    except OSError:
        return False  # one of them is closed
