"""The room on a disk."""

from __future__ import annotations

import errno
import os

# Errors of a write where the disk is full, or a quota or the size limit of files is reached.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def room_on_disk(path: str) -> float:
    """Give how many bytes this user may still write to the disk of `path`; inf if unknown."""
    try:
        found = os.statvfs(path)
    except OSError:
        return float("inf")
    free = found.f_bavail if os.geteuid() else found.f_bfree
    return free * found.f_frsize if found.f_blocks > 0 else float("inf")


def disk_is_full(path: str) -> bool:
    """Tell whether the file system of `path` has no room for a block of this user."""
    return room_on_disk(path) == 0
