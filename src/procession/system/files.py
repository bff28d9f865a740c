"""Reading the small files of /proc and /sys; errors of files, and the room for them.

Standard library only. Unless said otherwise, nothing here raises: None stands for what cannot be
read. A root directory lets tests show another machine.
"""

from __future__ import annotations

import errno
import os

STAT_BYTES = 4096  # more than /proc/<pid>/stat has


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
