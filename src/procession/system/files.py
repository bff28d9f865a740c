"""Small files in which the kernel tells something.

Nothing here raises: None stands for what cannot be read. Everything takes a root directory, so that
it can be shown another machine.
"""

from __future__ import annotations

import os


def read(path: str, root: str = "/") -> str | None:
    """Read a small file whole, without the white space around it."""
    try:
        with open(os.path.join(root, path.lstrip("/")), "rb") as f:
            return f.read().decode(errors="replace").strip()
    except (OSError, ValueError):
        return None


def number(path: str, root: str = "/") -> int | None:
    """Read a file that holds a number."""
    text = read(path, root)
    return int(text) if text is not None and text.isdecimal() else None


def field(path: str, name: str, root: str = "/") -> int | None:
    """Read the number behind `name` in a file like /proc/meminfo, in bytes if it is in kB."""
    for line in (read(path, root) or "").splitlines():
        head, _, rest = line.partition(":")
        words = rest.split()
        if head.strip() == name and words and words[0].isdecimal():
            return int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return None
