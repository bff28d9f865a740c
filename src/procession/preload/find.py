"""Where a module would be found: along a search path, by the file system, without importing it."""

from __future__ import annotations

import _imp
import os
import sys
from collections.abc import Iterable
from enum import Enum
from functools import cache, cached_property
from importlib.machinery import PathFinder

from procession.preload.started import left_out
from procession.values.base import Value

_STANDARD = os.path.dirname(os.path.realpath(os.__file__))
# Packages of the list try to import modules of these names.
_IMPORTED_IF_THERE = (
    "accimage anyio backports bottleneck brotli chardet ck4inductor colorama cuda cython dill "
    "flint gmpy gmpy2 h11 httpcore2 httpx2 isal lz4 onnx onnxruntime pydot pynvml pytz pyzstd "
    "redis scikits sentencepiece simplejson sksparse snappy socks tabulate tensorflow tensorrt "
    "torchaudio torchcomms torchgen triton truststore tvm uarray xarray zstandard"
)
# Modules of the standard library that no listed package imports, nor another of these.
_NOBODYS = (
    "aifc antigravity asynchat asyncore cgi cgitb chunk compileall crypt curses dbm distutils "
    "ensurepip idlelib imaplib imghdr imp lib2to3 mailbox mailcap msilib nis nntplib ossaudiodev "
    "pipes poplib pyclbr sched shelve smtpd sndhdr spwd sunau syslog tabnanny telnetlib test this "
    "trace turtle turtledemo uu wsgiref xdrlib zipapp"
)
_RELIED_ON = (sys.stdlib_module_names | {*_IMPORTED_IF_THERE.split()}) - {*_NOBODYS.split()}


class ModuleKind(Enum):
    """Where a module comes from."""

    STANDARD = "the standard library's"
    INSTALLED = "installed"
    LOCAL = "local"
    MISSING = "not found"


class Found(Value):
    """A module as it would be found.

    file: its file; "" for one that has none (built into the interpreter, a namespace package).
    search: where the submodules of a package are looked for; empty for what is no package.
    """

    kind: ModuleKind
    file: str = ""
    search: tuple[str, ...] = ()

    @property
    def has_source(self) -> bool:
        """Whether its file can be read as a program."""
        return self.file.endswith(".py")


_MISSING = Found(ModuleKind.MISSING)


def with_packages(module: str) -> list[str]:
    """Give the names of a module's packages, outermost first, and its own."""
    parts = module.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


class Search:
    """Looks for modules along a path, as an interpreter with this `sys.path` would.

    left_out: packages that are not preloaded though they are on the list, each with the reason.
    """

    def __init__(self, sys_path: Iterable[str]) -> None:
        self._path = tuple(os.path.abspath(p or os.curdir) for p in sys_path if "\0" not in p)
        self._found: dict[str, Found] = {}
        self.left_out = left_out()

    def find(self, module: str) -> Found:
        """Tell where the module of this dotted name lies; never raises OSError."""
        found = self._found.get(module)
        if found is None:
            found = self._found[module] = self._find(module)
        return found

    def in_the_way(self, names: Iterable[str]) -> tuple[str, str] | None:
        """Give (name, file) of a local module that hides one which other packages import.

        names: packages that it may not hide, besides the modules of the standard library.
        """
        for name in sorted(self._own & (_RELIED_ON | set(names))):
            found = self.find(name)
            if found.kind is ModuleKind.LOCAL and (
                found.file or name not in sys.stdlib_module_names
            ):
                return name, found.file or found.search[0]
        return None

    @cached_property
    def _own(self) -> set[str]:
        """The names that lie in the local directories of the path."""
        directories = [each for each in self._path if _kind(each) is ModuleKind.LOCAL]
        return {name.partition(".")[0] for each in directories for name in _names(each)}

    def _find(self, module: str) -> Found:
        parent, _, name = module.rpartition(".")
        if parent:
            above = self.find(parent)
            if above.kind is ModuleKind.STANDARD and not above.search:
                # os.path and its like; the submodules of a frozen package
                return above if module == "os.path" else _MISSING
            return self._look_in(name, above.search)
        if module in sys.builtin_module_names or _imp.is_frozen(module):
            return Found(ModuleKind.STANDARD)
        return self._look_in(module, self._path)

    def _look_in(self, name: str, directories: tuple[str, ...]) -> Found:
        portions: list[str] = []
        for directory in directories:
            if os.path.isfile(directory):
                return _MISSING  # an archive: what lies in it is not looked at
            spec = PathFinder.find_spec(name, (directory,))
            if spec is not None and spec.loader is not None:
                within = tuple(spec.submodule_search_locations or ())
                return Found(_kind(directory), spec.origin or "", within)
            if spec is not None:  # a part of a namespace package
                portions.append(os.path.join(directory, name))
        return Found(_kind(portions[0]), "", tuple(portions)) if portions else _MISSING


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


@cache
def _kind(directory: str) -> ModuleKind:
    parts = directory.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts:
        return ModuleKind.INSTALLED
    if f"{os.path.realpath(directory)}{os.sep}".startswith(_STANDARD + os.sep):
        return ModuleKind.STANDARD
    return ModuleKind.LOCAL
