"""The state of a file at one moment, to find out later whether the file has changed.

Theory of operation. A stamp is what the kernel knows of a file: device, inode, type, size, and the
times of its last changes in nanoseconds. The kernel's clock for these times is coarse: it ticks
every few milliseconds. A file that was changed in the tick in which it was stamped can be changed
once more in the same tick, and its stamp stays the same. So a stamp counts only if the file
was changed before that tick (`is_sure`).

Some file systems keep times in seconds, or have the clock of another machine, and a change there
may be seen only when a file is opened. Files of these are opened to be stamped, and count as young
for an hour.
"""

from __future__ import annotations

import os
import stat
import time

from procession.system.files import process_fields

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import TypeAlias

    # None: there is none. A directory has an empty one here: see `record` for what is in it.
    Stamp: TypeAlias = "tuple[int, ...] | None"

DIRECTORY: tuple[int, ...] = ()
TICK = 0.02  # seconds; no tick is longer
_COARSE = 5  # CLOCK_REALTIME_COARSE: the clock of the times of files
_SECOND = 1_000_000_000
_YOUNG_ELSEWHERE = 3600 * _SECOND
# File systems with times of another clock, or in seconds, or whose content others change.
_ELSEWHERE = frozenset(
    ("9p", "afs", "beegfs", "ceph", "cifs", "exfat", "fhgfs", "gfs2", "glusterfs", "gpfs", "lustre",
     "msdos", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "vboxsf",
     "vfat", "virtiofs", "wekafs")
)  # fmt: skip


def clock() -> int:
    """Give the time by which files are stamped now, in ns: that of the kernel's last tick."""
    return time.clock_gettime_ns(_COARSE)


def started() -> int:
    """Give the time, as `clock` does, before which this process was not there."""
    ticks = int(process_fields("self")[19])
    age = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * _SECOND // os.sysconf("SC_CLK_TCK")
    return clock() - age - int(TICK * _SECOND)


def of(file: str | int) -> Stamp:
    """Give the stamp of what a path or descriptor leads to, None if it leads to nothing."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(status.st_mode):
        return DIRECTORY
    return (
        status.st_dev,
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def of_opened(path: str) -> Stamp:
    """Give the stamp of a file that is opened for it: a network then tells the latest."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return of(path)
    try:
        return of(fd)
    finally:
        os.close(fd)


def of_directory(path: str) -> Stamp:
    """Give the stamp of a directory itself, which changes with the names in it."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISDIR(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def is_sure(stamp: Stamp, at: int, elsewhere: frozenset[int]) -> bool:
    """Whether each change from the moment `at` on shows in the stamp of a file or directory.

    at: given by `clock` before the stamp was taken. elsewhere: see `devices_elsewhere`.
    """
    if not stamp:
        return True
    changed = stamp[-1]
    if stamp[0] in elsewhere:
        return changed < at - _YOUNG_ELSEWHERE
    if changed % _SECOND == 0:  # perhaps this file system knows seconds only
        return changed < at - 2 * _SECOND
    return changed < at


def devices_elsewhere() -> frozenset[int]:
    """Give the numbers of the devices whose files need more than a stamp."""
    found: set[int] = set()
    try:
        with open("/proc/self/mountinfo", "rb") as f:
            lines = f.read().splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        before, _, after = line.partition(b" - ")
        kind = after.split(b" ", 1)[0].decode(errors="replace")
        if kind in _ELSEWHERE or kind.startswith("fuse"):
            major, _, minor = before.split()[2].partition(b":")
            found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)
