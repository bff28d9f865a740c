"""A real file system (ext4 in a file) that is frozen, as `fsfreeze` does for a snapshot.

Who writes to it then waits in the kernel, where no signal reaches it, until it is thawed.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

FREEZE, THAW = 0xC0045877, 0xC0045878  # FIFREEZE, FITHAW: linux/fs.h
BYTES = 16 << 20


@functools.cache
def possible() -> bool:
    """Tell whether it can be had: this user may mount files, and make a file system."""
    if os.getuid() or not os.path.exists("/dev/loop-control") or shutil.which("mkfs.ext4") is None:
        return False
    with tempfile.TemporaryDirectory() as place:
        try:
            with mounted(Path(place)):
                freeze(Path(place))
                thaw(Path(place))
        except (OSError, subprocess.CalledProcessError):
            return False
    return True


@contextlib.contextmanager
def mounted(disk: Path) -> Iterator[None]:
    """Mount one at a directory. Raises CalledProcessError, or OSError."""
    with tempfile.NamedTemporaryFile() as image:
        os.truncate(image.name, BYTES)
        _do("mkfs.ext4", "-q", image.name)
        _do("mount", "-o", "loop", image.name, str(disk))
        try:
            yield
        finally:
            thaw(disk)
            _do("umount", "--lazy", str(disk))


def freeze(disk: Path) -> None:
    """Let everybody wait who writes. Raises OSError."""
    _tell(disk, FREEZE)


def thaw(disk: Path) -> None:
    """Let them go on, if they wait."""
    with contextlib.suppress(OSError):
        _tell(disk, THAW)


def _tell(disk: Path, request: int) -> None:
    fd = os.open(disk, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(fd, request, 0)
    finally:
        os.close(fd)


def _do(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
