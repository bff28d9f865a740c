"""What imports read, seen while they are made.

Theory of operation. Between `begin` and `end` there are three observers. An audit hook sees which
files are opened and which directories are listed. A finder that finds nothing, first in
`sys.meta_path`, sees which names are looked for, and where. And the mapping behind `os.environ`
sees the names of variables that are read. A file is stamped, and a directory listed, before the
import reads it; `record` does so once more at the end. If both are equal, the files are still those
that were imported.

An audit hook cannot be removed: forks of this process have it for ever, where it costs about
0.1 µs for each audited event. So there is one only where imports are to be kept.

Rejected: to look only at `sys.modules` at the end. That shows neither the data files that a package
has read, nor the names that were not found (`try: import triton`); and if a file was changed
between its import and the end, the stamp would be that of a file that was never imported.
"""

from __future__ import annotations

import os
import sys
from importlib import machinery

from procession.agent import stamps

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any, TypeAlias

    _Variables: TypeAlias = dict[bytes, bytes]
else:
    _Variables = dict

NOT_FILES = ("/proc/", "/sys/", "/dev/")  # the kernel makes up what lies there
SUFFIXES = frozenset((*machinery.all_suffixes(), ""))  # of what a module's name may lead to
INSTALLED = (".dist-info", ".egg-info", ".egg", ".pth")  # endings of names that tell what is
_UNFORESEEN = {
    **dict.fromkeys(
        ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty",
         "pty.spawn"), "an import ran a program",
    ),
    **dict.fromkeys(
        ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"),
        "an import used the network",
    ),
}  # fmt: skip


class Before:
    """A file as it was before it was read. at: when."""

    def __init__(self, path: str) -> None:
        self.at = stamps.clock()
        self.stamp = stamps.of(path)


class Listing:
    """A directory as it was before it was searched first, and what was looked for in it.

    at: when. names: the modules. whole: all that lies there was read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.at = stamps.clock()
        self.stamp = stamps.of_directory(path)
        self.entries = frozenset(entries_of(path)) if self.stamp else frozenset[str]()
        self.names = {"__init__"}  # which makes it a package
        self.whole = False

    def relevant(self, entries: Iterable[str]) -> tuple[str, ...]:
        """Give those of the names in the directory that could change what was read."""
        return relevant(entries, self.names, self.whole)


def relevant(entries: Iterable[str], names: Collection[str], whole: bool) -> tuple[str, ...]:
    """Give the relevant ones of the names in a directory, sorted; the others as in `Listing`."""
    if whole:
        return tuple(sorted(entries))
    found: list[str] = []
    for entry in entries:
        stem, dot, rest = entry.partition(".")
        if (stem in names and dot + rest in SUFFIXES) or entry.endswith(INSTALLED):
            found.append(entry)
    return tuple(sorted(found))


class Observer:
    """Sees what imports read. One for a process.

    What was seen since it was last taken by `record`: files that were opened, those that were
    written, directories, names of variables; `unknown`: what an import did whose result nobody can
    foresee, "" if nothing.
    """

    def __init__(self) -> None:
        self.elsewhere = stamps.devices_elsewhere()
        self._hears = False
        self.forget()
        sys.addaudithook(self._hear)

    def begin(self) -> None:
        """Observe from now on."""
        self.began = stamps.clock()
        sys.meta_path.insert(0, self)  # pyright: ignore[reportArgumentType]
        environ: Any = os.environ
        environ._data = os.environb._data = _Asked(environ._data, self.variables)  # pyright: ignore
        self._hears = True

    def end(self) -> None:
        """Observe no more, until the next `begin`."""
        self._hears = False
        if self in sys.meta_path:
            sys.meta_path.remove(self)  # pyright: ignore[reportArgumentType]
        environ: Any = os.environ
        if isinstance(environ._data, _Asked):
            environ._data = os.environb._data = dict(environ._data)  # pyright: ignore

    def forget(self) -> None:
        """Begin anew: what was seen is recorded."""
        self.opened: dict[str, Before] = {}
        self.written: set[str] = set()
        self.variables: set[str] = set()
        self.listings: dict[str, Listing] = {}
        self.unknown = ""

    def search(self, directory: str, name: str) -> None:
        """Note that a module is, or was, looked for in a directory."""
        self.listing(os.path.abspath(directory)).names.add(name)

    def listing(self, path: str) -> Listing:
        """Give what is known of a directory, which is looked at now, if it was not before."""
        found = self.listings.get(path)
        if found is None:
            found = self.listings[path] = Listing(path)
        return found

    # -- what is told

    def find_spec(self, name: str, path: Iterable[str] | None = None, target: Any = None) -> None:
        """Take note of a module that is looked for along this path, `sys.path` if None."""
        along = list(sys.path if path is None else path)
        self._hear("find", (name.rpartition(".")[2], along))

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take note of an event; what this reads itself is not heard, nor its failure."""
        if not self._hears:
            return
        self._hears = False
        try:
            if event == "find":
                name, along = arguments
                for each in along:
                    if isinstance(each, str):
                        self.search(each, name)
            elif event == "open":
                self._open(arguments[0], arguments[2])
            elif event in ("os.listdir", "os.scandir"):
                self._list(arguments[0], sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
            elif event == "sqlite3.connect":
                self._open(arguments[0], 0)
            elif event in _UNFORESEEN:
                self.unknown = self.unknown or f"{_UNFORESEEN[event]} ({event})"
        except Exception as e:
            self.unknown = self.unknown or f"an import could not be observed ({type(e).__name__})"
        finally:
            self._hears = True

    def _open(self, given: Any, flags: object) -> None:
        path = _path(given)
        if path is None:
            return
        flags = flags if isinstance(flags, int) else 0
        made = flags & (os.O_TRUNC | os.O_EXCL) and flags & os.O_ACCMODE != os.O_RDONLY
        if made or flags & os.O_ACCMODE == os.O_WRONLY:
            self.written.add(path)
        elif path not in self.opened:
            self.opened[path] = Before(path)

    def _list(self, given: Any, frame: Any) -> None:
        if isinstance(given, int):
            given = os.readlink(f"/proc/self/fd/{given}")
        path = _path("." if given is None else given)
        file: str = frame.f_code.co_filename
        if path is None or file.startswith("<frozen importlib"):
            return  # `find_spec` knows what for
        listing = self.listing(path)
        if not file.endswith("importlib/metadata/__init__.py"):  # that asks what is installed
            listing.whole = True


class _Asked(_Variables):
    """The variables of this process; keeps the names of those that are asked for one by one."""

    def __init__(self, of: dict[bytes, bytes], names: set[str]) -> None:
        super().__init__(of)
        self._names = names

    def __getitem__(self, name: bytes) -> bytes:
        self._names.add(os.fsdecode(name))
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        if isinstance(name, bytes):
            self._names.add(os.fsdecode(name))
        return super().__contains__(name)


def entries_of(directory: str) -> list[str]:
    """List the names in a directory, none if it cannot be read."""
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _path(given: Any) -> str | None:
    """Give the whole path of what was opened, None for a descriptor and what is no file."""
    if isinstance(given, int):
        return None
    path = os.path.abspath(os.fsdecode(given))
    return None if path.startswith(NOT_FILES) else path
