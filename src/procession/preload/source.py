"""The source of a program's modules: read and parsed once, never run."""

from __future__ import annotations

import ast
import os
import stat
import warnings

from procession.preload.plan import StoppedAt

LARGEST = 1 << 20  # bytes of one file
MOST = 256 << 10  # bytes of all files but the first, which takes 0.2 s


class Stopped(Exception):
    """Reading ends. at: where; None until it is known. path: of a file that cannot be read."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.at = StoppedAt(path, 0, reason) if path else None


class Sources:
    """The files of one program that were parsed, the program's own first."""

    def __init__(self) -> None:
        self._trees: dict[str, ast.Module] = {}
        self._size = 0

    def tree(self, path: str) -> ast.Module:
        """Parse a file. Raises Stopped."""
        if path not in self._trees:
            text = _read(path)
            self._size += len(text)
            if self._trees and self._size > MOST:
                raise Stopped(f"more than {MOST >> 10} KiB would be read", path)
            self._trees[path] = _parsed(text, path)
        return self._trees[path]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", opener=_open) as f:
            if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                raise Stopped("it is no file", path)
            source = f.read(LARGEST + 1)
    except (OSError, ValueError) as e:
        raise Stopped(f"it cannot be read: {getattr(e, 'strerror', None) or e}", path) from None
    if len(source) > LARGEST:
        raise Stopped(f"it is larger than {LARGEST >> 20} MiB", path)
    if path.endswith(".pyc") or b"\0" in source:
        raise Stopped("it is compiled, or no text", path)
    return source


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _parsed(source: bytes, path: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the rank will show them
            return ast.parse(source, path)
    except (SyntaxError, ValueError, LookupError) as e:
        raise Stopped(f"it cannot be parsed: {e}", path) from None


def is_guarded(path: str) -> bool:
    """Whether a main program can be imported: its start stands under a `__name__`."""
    try:
        tree = _parsed(_read(path), path)
    except Stopped:
        return False
    tests = [ast.walk(node.test) for node in tree.body if isinstance(node, ast.If)]
    return any(isinstance(n, ast.Name) and n.id == "__name__" for test in tests for n in test)


def imported(node: ast.AST, package: str) -> list[str]:
    """Give the modules that an import statement imports, nothing for any other node.

    package: where relative imports begin; what is above it is left out.
    """
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    parts = package.split(".") if package else []
    if node.level > len(parts):
        return []
    above = parts[: len(parts) - node.level + 1] if node.level else []
    return [".".join((*above, *filter(None, [node.module])))]
