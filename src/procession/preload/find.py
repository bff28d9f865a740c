"""Where a module would be found: along a search path, by the file system, without importing it."""

from __future__ import annotations

import _imp
import os
import sys
from collections.abc import Iterable
from enum import Enum
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES

from procession.values import Value

_SUFFIXES = (*EXTENSION_SUFFIXES, ".py", ".pyc")  # the order in which Python looks
_STANDARD = os.path.dirname(os.path.realpath(os.__file__))
# What an interpreter has loaded before it looks at its program.
_LOADED_AT_START = (
    "_collections_abc _sitebuiltins _weakrefset abc codecs encodings genericpath importlib io os "
    "posixpath site stat zipimport"
)
# Modules of these names are imported, if there are any, by packages of the list.
_IMPORTED_IF_THERE = (
    "backports bottleneck brotli chardet ck4inductor colorama cuda cython dill flint gmpy gmpy2 "
    "isal lz4 onnx onnxruntime pydot pynvml pytz pyzstd redis scikits simplejson sksparse snappy "
    "socks tabulate tensorflow tensorrt torchcomms torchgen triton tvm uarray xarray "
    "zstandard"
)
# Nothing imports these by itself, whatever lies under such a name.
_NOBODYS = frozenset(("test", "this", "antigravity", "idlelib", "turtle", "turtledemo"))


class Kind(Enum):
    """Whose a module is."""

    STANDARD = "the standard library's"
    INSTALLED = "installed"
    LOCAL = "local"
    MISSING = "not found"


class Found(Value):
    """A module as it would be found.

    file: its file; "" for one that has none (built into the interpreter, a namespace package).
    search: where the submodules of a package are looked for; empty for what is no package.
    """

    kind: Kind
    file: str = ""
    search: tuple[str, ...] = ()

    @property
    def has_source(self) -> bool:
        """Whether its file can be read as a program."""
        return self.file.endswith(".py")


_MISSING = Found(Kind.MISSING)


def with_packages(module: str) -> list[str]:
    """Give the names of a module's packages, outermost first, and its own."""
    parts = module.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


class Search:
    """Looks for modules along a path, as an interpreter with this `sys.path` would."""

    def __init__(self, sys_path: Iterable[str]) -> None:
        self._path = tuple(os.path.abspath(p or os.curdir) for p in sys_path if "\0" not in p)
        self._listed: dict[str, frozenset[str] | None] = {}
        self._found: dict[str, Found] = {}

    def find(self, module: str) -> Found:
        """Tell where the module of this dotted name lies; never raises OSError."""
        found = self._found.get(module)
        if found is None:
            found = self._found[module] = self._find(module)
        return found

    def in_the_way(self, names: Iterable[str]) -> tuple[str, str] | None:
        """Give (name, file) of a local module that stands before one that others rely on.

        names: listed packages, which count besides the standard library's modules.
        """
        relied_on = (
            sys.stdlib_module_names | set(_IMPORTED_IF_THERE.split()) | set(names)
        ) - _NOBODYS
        for directory in self._path:
            if _kind(directory) is not Kind.LOCAL:
                continue
            own = {name.partition(".")[0] for name in self._names(directory) or ()}
            for name in sorted(own & relied_on):
                found = self.find(name)
                if found.kind is Kind.LOCAL and (found.file or name not in sys.stdlib_module_names):
                    return name, found.file or os.path.join(directory, name)
        return None

    def _find(self, module: str) -> Found:
        parent, _, name = module.rpartition(".")
        if parent:
            above = self.find(parent)
            if above.kind is Kind.STANDARD and not above.search:
                # os.path and its like; the submodules of a frozen package
                return above if module == "os.path" else _MISSING
            return self._look(name, above.search)
        if module in sys.builtin_module_names or _imp.is_frozen(module):
            return Found(Kind.STANDARD)
        if module in _LOADED_AT_START.split():
            return self._look(module, (_STANDARD,))
        return self._look(module, self._path)

    def _look(self, name: str, directories: tuple[str, ...]) -> Found:
        portions: list[str] = []
        for directory in directories:
            names = self._names(directory)
            if names is None:
                return _MISSING  # an archive: what lies in it is not looked at
            if name in names:
                inside = os.path.join(directory, name)
                for suffix in _SUFFIXES:
                    if f"__init__{suffix}" in (self._names(inside) or ()):
                        file = os.path.join(inside, f"__init__{suffix}")
                        return Found(_kind(directory), file, (inside,))
            for suffix in _SUFFIXES:
                if name + suffix in names:
                    file = os.path.join(directory, name + suffix)
                    if os.path.isfile(file):
                        return Found(_kind(directory), file)
            if name in names and os.path.isdir(os.path.join(directory, name)):
                portions.append(os.path.join(directory, name))
        if portions:
            return Found(_kind(portions[0]), "", tuple(portions))
        return _MISSING

    def _names(self, directory: str) -> frozenset[str] | None:
        """List a directory; None for an archive."""
        if directory not in self._listed:
            try:
                self._listed[directory] = frozenset(os.listdir(directory))
            except NotADirectoryError:
                self._listed[directory] = None
            except (OSError, ValueError):
                self._listed[directory] = frozenset()
        return self._listed[directory]


@cache
def _kind(directory: str) -> Kind:
    parts = directory.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts:
        return Kind.INSTALLED
    if f"{os.path.realpath(directory)}{os.sep}".startswith(_STANDARD + os.sep):
        return Kind.STANDARD
    return Kind.LOCAL
