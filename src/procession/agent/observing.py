"""What imports read, seen while they are made.

Theory of operation. Between `begin` and `end` there are three observers. An audit hook sees which
files are opened and which directories are listed. A finder that finds nothing, first in
`sys.meta_path`, sees which names are looked for, and where. And the mapping behind `os.environ`
sees which variables are read. A file is stamped, and a directory listed, before the import reads
it; `record` does so once more at the end. If both are equal, the files are still those that were
imported.

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
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any, TypeAlias

    _Variables: TypeAlias = dict[bytes, bytes]
else:
    _Variables = dict

NOT_FILES = ("/proc/", "/sys/", "/dev/")  # the kernel makes up what lies there
SUFFIXES = frozenset((*machinery.all_suffixes(), ""))  # of what a module's name may lead to
_LISTINGS = frozenset(("os.listdir", "os.scandir"))
_PROGRAMS = frozenset(
    ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty",
     "pty.spawn")
)  # fmt: skip
_NETWORK = frozenset(("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"))


class Before:
    """A file as it was before it was read. at: when. digest: if it was too young for its stamp."""

    def __init__(self, path: str, elsewhere: frozenset[int]) -> None:
        self.at = stamps.clock()
        self.stamp = stamps.of(path)
        self.digest = b""
        if not stamps.is_sure(self.stamp, self.at, elsewhere):
            self.digest = stamps.digest(path)


class Listing:
    """A directory as it was before it was searched first, and what was looked for in it.

    at: when. names: the modules. whole: all that lies there was read. packages: which are installed
    was read. paths: `.pth` files were read.
    """

    def __init__(self, path: str) -> None:
        self.at = stamps.clock()
        self.stamp = stamps.of_directory(path)
        self.entries = frozenset(entries_of(path)) if self.stamp else frozenset[str]()
        self.names: set[str] = set()
        self.whole = False
        self.packages = False
        self.paths = False

    def relevant(self, entries: Iterable[str]) -> tuple[str, ...]:
        """Give those of the names in the directory that could change what was read."""
        kinds = relevance(self.names, self.whole, self.packages, self.paths)
        return tuple(sorted(filter(kinds, entries)))


def relevance(
    names: Collection[str], whole: bool, packages: bool, paths: bool
) -> Callable[[str], bool]:
    """Give what tells whether a name in a directory is relevant; the arguments as in `Listing`."""
    endings = (*((".dist-info", ".egg-info", ".egg") if packages else ()), *([".pth"] * paths))

    def is_relevant(entry: str) -> bool:
        stem, dot, rest = entry.partition(".")
        return (
            whole
            or (stem in names and dot + rest in SUFFIXES)
            or (bool(endings) and entry.endswith(endings))
        )

    return is_relevant


class Observer:
    """Sees what imports read. One for a process.

    listed: packages whose reads of variables are known otherwise. The rest is what was seen since
    it was last taken by `record`: files that were opened, those that were written, directories,
    variables, whether all of them were read by a module that is not listed; `unknown`: what an
    import did whose result nobody can foresee, "" if nothing. mapped: files in the memory of this
    process that are in a record.
    """

    def __init__(self, listed: Iterable[str] = ()) -> None:
        self.listed = frozenset(listed)
        self.began = stamps.clock()
        self.elsewhere = stamps.devices_elsewhere()
        self.opened: dict[str, Before] = {}
        self.written: set[str] = set()
        self.listings: dict[str, Listing] = {}
        self.variables: set[str] = set()
        self.all_variables = False
        self.unknown = ""
        self.mapped: set[str] = set()
        self._hears = False
        self._finder = _Finder(self._look)
        self._asked: _Asked | None = None
        self._pid = os.getpid()
        sys.addaudithook(self._hear)

    def begin(self) -> None:
        """Observe from now on."""
        self._pid = os.getpid()
        self.began = stamps.clock()
        sys.meta_path.insert(0, self._finder)  # pyright: ignore[reportArgumentType]
        environ: Any = os.environ
        self._asked = _Asked(environ._data, self.variables, self._ask_all)
        environ._data = os.environb._data = self._asked  # pyright: ignore
        self._hears = True

    def end(self) -> None:
        """Observe no more, until the next `begin`."""
        self._hears = False
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)  # pyright: ignore[reportArgumentType]
        environ: Any = os.environ
        if self._asked is not None and environ._data is self._asked:
            environ._data = os.environb._data = self._asked.plain()  # pyright: ignore
        self._asked = None

    def forget(self) -> None:
        """Begin anew: what was seen is recorded."""
        self.opened, self.written, self.listings = {}, set(), {}
        self.variables = set()
        self.all_variables, self.unknown = False, ""

    def search(self, directory: str, name: str = "") -> None:
        """Note that a module is, or was, looked for in a directory."""
        listing = self._listing(os.path.abspath(directory))
        if name:
            listing.names.add(name)

    # -- what is told

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._hears:
            return
        if event == "open":
            _, mode, flags = arguments
            self._quietly(lambda: self._open(arguments[0], mode, flags))
        elif event in _LISTINGS:
            frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
            self._quietly(lambda: self._list(arguments[0], frame))
        elif event == "sqlite3.connect":
            self._quietly(lambda: self._open(arguments[0], "r", 0))
        elif event in _PROGRAMS:
            self._quietly(lambda: self._note(f"an import ran a program ({event})"))
        elif event in _NETWORK:
            self._quietly(lambda: self._note("an import used the network"))

    def _quietly(self, call: Callable[[], None]) -> None:
        """Do what is to be done for an event; its own reads are not heard, nor its failure."""
        if os.getpid() != self._pid:
            return
        self._hears = False
        try:
            call()
        except Exception as e:
            self.unknown = self.unknown or f"an import could not be observed ({type(e).__name__})"
        finally:
            self._hears = True

    def _note(self, what: str) -> None:
        self.unknown = self.unknown or what

    def _open(self, given: Any, mode: object, flags: object) -> None:
        path = _path(given)
        if path is None:
            return
        flags = flags if isinstance(flags, int) else 0
        made = flags & (os.O_TRUNC | os.O_EXCL) and flags & os.O_ACCMODE != os.O_RDONLY
        if made or flags & os.O_ACCMODE == os.O_WRONLY:
            self.written.add(path)
        elif path not in self.opened:
            self.opened[path] = Before(path, self.elsewhere)

    def _list(self, given: Any, frame: Any) -> None:
        if isinstance(given, int):
            given = os.readlink(f"/proc/self/fd/{given}")
        path = _path("." if given is None else given)
        if path is None:
            return
        file: str = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return  # `_look` knows what for
        listing = self._listing(path)
        if frame.f_globals.get("__name__") == "procession.worker.program":
            listing.names |= sys.stdlib_module_names  # what a program may hide; see there
            return
        if file.endswith("importlib/metadata/__init__.py") and frame.f_code.co_name == "children":
            listing.packages = True
        else:
            listing.whole = True

    def _look(self, name: str, path: Iterable[str] | None) -> None:
        """Take note that a module is looked for, along this path, `sys.path` if None."""
        if self._hears:
            found = list(sys.path if path is None else path)
            last = name.rpartition(".")[2]
            self._quietly(lambda: self._look_along(last, found))

    def _look_along(self, name: str, path: list[Any]) -> None:
        for each in path:
            if isinstance(each, str):
                self.search(each, name)

    def _listing(self, path: str) -> Listing:
        found = self.listings.get(path)
        if found is None:
            found = self.listings[path] = Listing(path)
        return found

    def _ask_all(self) -> None:
        """Take note that all variables were read; see which module it was that did."""
        if not self._hears or self.all_variables or os.getpid() != self._pid:
            return
        frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
        while frame is not None:
            top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if top == "procession":
                return
            is_main = top == "__main__" and frame.f_code.co_filename == "<string>"
            known = is_main or top in sys.stdlib_module_names or top in self.listed
            if not known:
                self.all_variables = True
                return
            frame = frame.f_back


class _Finder:
    """Stands first among the finders of modules, and finds none."""

    def __init__(self, look: Callable[[str, Iterable[str] | None], None]) -> None:
        self._look = look

    def find_spec(self, name: str, path: Iterable[str] | None = None, target: Any = None) -> None:
        """Take note of what is looked for."""
        self._look(name, path)

    def invalidate_caches(self) -> None:
        """Do nothing: nothing is kept."""


class _Asked(_Variables):
    """The variables of this process; keeps the names of those that are asked for."""

    def __init__(self, of: dict[bytes, bytes], names: set[str], all_of: Callable[[], None]) -> None:
        super().__init__(of)
        self._names = names
        self._all_of = all_of

    def __getitem__(self, name: bytes) -> bytes:
        self._names.add(os.fsdecode(name))
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        if isinstance(name, bytes):
            self._names.add(os.fsdecode(name))
        return super().__contains__(name)

    def __iter__(self) -> Iterator[bytes]:
        self._all_of()
        return super().__iter__()

    def plain(self) -> dict[bytes, bytes]:
        """Give them as a dict that tells nobody."""
        return dict(super().items())


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
