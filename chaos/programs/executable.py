"""Executables that cannot be executed, each in its own way."""

from __future__ import annotations

import contextlib
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

GOOD = "#!/bin/sh\n: > there.$RANK\nexec sleep 100\n"
# ELF, 64 bit, little endian, for a machine that nobody has here (IA-64), without a segment.
FOREIGN = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
    "<HHIQQQIHHHHHH", 2, 50, 1, 0x400000, 64, 0, 0, 64, 56, 0, 64, 0, 0
)  # fmt: skip


def write(path: Path, data: str | bytes) -> None:
    """Write a file that may be executed."""
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    path.chmod(0o755)


def _gone(path: Path) -> None:
    path.unlink()


def _link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _in_no_directory(path: Path) -> None:
    shutil.rmtree(path.parent)


# By kind: what makes of a good program one of this kind, and words of which one is in the reason.
KINDS: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "missing": (_gone, ("No such file", "there is no program")),
    "in a directory that is gone": (_in_no_directory, ("No such file", "there is no program")),
    "a directory": (_directory, ("Permission denied", "is a directory")),
    "not executable": (lambda p: p.chmod(0o644), ("Permission denied", "is not executable")),
    "a link to itself": (_link_to_itself, ("Too many levels", "there is no program")),
    "empty": (lambda p: write(p, ""), ("Exec format",)),
    "no program": (lambda p: write(p, "echo no first line\n"), ("Exec format",)),
    "garbage": (lambda p: write(p, bytes(range(256)) * 16), ("Exec format",)),
    "of another machine": (lambda p: write(p, FOREIGN), ("Exec format",)),
    "torn": (lambda p: write(p, FOREIGN[:20]), ("Exec format",)),
    "without its interpreter": (lambda p: write(p, "#!/no/such/sh\n"), ("No such file",)),
    "its own interpreter": (lambda p: write(p, f"#!{p}\n"), ("Too many levels", "Exec format")),
    "with a directory as interpreter": (lambda p: write(p, "#!/etc\n"), ("Permission denied",)),
    "on a disk of no programs": (lambda p: None, ("Permission denied", "is not executable")),
    "being written": (lambda p: None, ("Text file busy",)),
}


@contextlib.contextmanager
def spoiled(path: Path, kind: str) -> Iterator[None]:
    """Make a good program one of this kind, while the block runs."""
    KINDS[kind][0](path)
    if kind == "being written":
        with open(path, "r+b"):
            yield
    elif kind == "on a disk of no programs":
        _mount("mount", "-t", "tmpfs", "-o", "noexec", "none", str(path.parent))
        try:
            write(path, GOOD)
            yield
        finally:
            _mount("umount", "--lazy", str(path.parent))
    else:
        yield


def _mount(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
