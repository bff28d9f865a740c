"""What decided the imports of an agent: files, directories, variables, to be compared later.

Theory of operation. An agent that is kept (`template`) has imported installed packages only
(`preload.choose`). What these read of variables through `os.environ`, and which modules they ask
for, is noted while they do: one that failed, where they go on without it, is known by that. All
else is looked at when the imports are done: the files of modules and of libraries, every file in
the directories of packages, the names on the search path that could lead an import elsewhere, what
is installed there, and what a starting interpreter reads. Each file must be older than the imports,
or nobody could say which state of it was imported; then there is a `fault`. A log file that is made
beside a program changes nothing.

A stamp is what the kernel knows of a file: device, inode, type, size, and the times of its last
changes. The kernel's clock for these times ticks every few milliseconds. A file that was changed
in the tick in which it was stamped can be changed once more with the same stamp. So a stamp counts
only if the file was changed before that tick. Some file systems keep times in seconds, or have the
clock of another machine, and a change there may be seen only when a file is opened. Files of these
are opened to be stamped, and count as young for an hour.

Not seen are data that packages have in other directories, until they are installed anew.

Rejected: to load changed modules again in place (`importlib.reload`). Other modules and objects
would still refer to the old ones.
"""

from __future__ import annotations

import os
import site
import stat
import sys
import time
from importlib import machinery

from procession.system.files import process_fields

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    Stamp: TypeAlias = "tuple[int, ...] | None"  # None: there is nothing
    _Variables: TypeAlias = dict[bytes, bytes]
else:
    _Variables = dict

TICK = 0.02  # seconds; no tick is longer
CACHE = "__pycache__"  # the compiled files that were loaded are looked at by themselves
SUFFIXES = machinery.all_suffixes()
INSTALLED = (".dist-info", ".egg-info", ".egg", ".pth")  # endings of names that tell what is
_COARSE = 5  # CLOCK_REALTIME_COARSE: the clock of the times of files
_SECOND = 1_000_000_000
_YOUNG_ELSEWHERE = 3600 * _SECOND
# File systems with times of another clock, or in seconds, or whose content others change.
_ELSEWHERE = frozenset(
    ("9p", "afs", "beegfs", "ceph", "cifs", "exfat", "fhgfs", "gfs2", "glusterfs", "gpfs", "lustre",
     "msdos", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "vboxsf",
     "vfat", "virtiofs", "wekafs")
)  # fmt: skip
# What the C library, the loader and OpenSSL read.
_SYSTEM_FILES = ("/etc/passwd", "/etc/group", "/etc/hostname", "/etc/localtime", "/etc/timezone",
                 "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ssl/openssl.cnf",
                 "/usr/lib/ssl/openssl.cnf", "/usr/local/ssl/openssl.cnf")  # fmt: skip
_BETWEEN = ("os", "_collections_abc", "collections.abc")  # those who ask and the variables
_NO_FILES = (b"/dev/", b"/memfd:", b"/SYSV")  # that stand among the mapped ones


class Imported:
    """What decided the imports of this process.

    fault: why they must not be used again, "" if they may. since: when they began at the earliest;
    moved to when all was found unchanged.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        """Begin with the interpreter alone. env: the variables that imports find."""
        self.fault = ""
        self.since = _started()
        self._elsewhere = devices_elsewhere()
        self._asked: set[str] = set()
        self._sought = _Sought()
        self._variables: dict[str, object] = {}
        self._files: dict[str, Stamp] = {}
        self._search: dict[str, _Directory] = {}  # directories in which modules are looked for
        self._packages: dict[str, _Directory] = {}  # those of packages
        self.begin_recording()
        self.end(env)

    def begin_recording(self) -> None:
        """Note from now on which variables are read, and what lies on the search path."""
        for path in (*sys.path, *site.getsitepackages(), site.USER_SITE):
            if isinstance(path, str) and os.path.abspath(path) not in self._search:
                where = os.path.abspath(path)
                self._search[where] = _Directory(where, self._elsewhere)
        environ: Any = os.environ
        environ._data = os.environb._data = _NotedVariables(environ._data, self._asked)  # pyright: ignore
        sys.meta_path.insert(0, self._sought)

    def end(self, env: Mapping[str, str], failed: Sequence[str] = ()) -> None:
        """Look at all that decided what was imported. env: the variables that imports found.

        failed: what could not be imported; nobody knows what would have to change for that.
        """
        self.fault = self.fault or "".join(f"it could not import {name}" for name in failed[:1])
        environ: Any = os.environ
        if isinstance(environ._data, _NotedVariables):
            environ._data = os.environb._data = dict(dict.items(environ._data))  # pyright: ignore
            sys.meta_path[:] = [each for each in sys.meta_path if each is not self._sought]
        self._variables |= {name: _value(env, name) for name in self._asked}
        before, self._files, self._packages = self._files, {}, {}
        self._look_at_modules()
        self._look_at_search()
        self._look_for_packages()
        own = os.path.dirname(os.path.abspath(sys.executable))
        configuration = (os.path.join(d, "pyvenv.cfg") for d in (own, os.path.dirname(own)))
        for path in (sys.executable, *configuration, *_SYSTEM_FILES, *_mapped()):
            if path.endswith(" (deleted)"):
                self._doubt(path.removesuffix(" (deleted)"), "was replaced while it is in use")
            self._add(path)
        for path, stamp in before.items():
            if self._files.setdefault(path, stamp) != stamp:
                self._doubt(path, "changed")

    def _look_at_search(self) -> None:
        for path, before in self._search.items():
            seen = self._search[path] = _Directory(path, self._elsewhere)
            if seen.names != before.names:
                self._doubt(path, "changed while modules were searched for")
            if seen.stamp is None:
                self._add(path)  # an archive, or nothing
            for name in seen.names:
                if name.endswith(INSTALLED):
                    self._add(os.path.join(path, name))

    def _look_at_modules(self) -> None:
        modules = [(n, getattr(m, "__spec__", None)) for n, m in list(sys.modules.items())]
        failed = [n for n in self._sought.names if n not in sys.modules and "." not in n]
        modules += [(name, machinery.PathFinder.find_spec(name)) for name in failed]
        specs = [(n, s) for n, s in modules if isinstance(s, machinery.ModuleSpec)]
        for _, spec in specs:
            if spec.has_location and spec.origin is not None:
                archive = getattr(spec.loader, "archive", None)
                self._add(archive or os.path.abspath(spec.origin), there=True)
                if spec.cached and not archive:
                    # Whoever compiled it meanwhile has read the source, which is older.
                    self._add(os.path.abspath(spec.cached), compiled=True)
        for name, spec in specs:
            for path in map(os.path.abspath, spec.submodule_search_locations or ()):
                if path not in self._packages and path not in self._search:
                    seen = self._packages[path] = _Directory(path, self._elsewhere, f"{name}.")
                    for file in seen.names:
                        self._add(os.path.join(path, file))

    def _look_for_packages(self) -> None:
        """Look at directories beside a module of the same name, which could become packages."""
        for path, seen in (*self._search.items(), *self._packages.items()):
            for name in seen.names:
                inner = os.path.join(path, name)
                is_none = f"{seen.above}{name}" in sys.modules and inner not in self._packages
                if is_none and os.path.isdir(inner):
                    for suffix in SUFFIXES:
                        self._add(os.path.join(inner, f"__init__{suffix}"))

    def _add(self, path: str, *, there: bool = False, compiled: bool = False) -> None:
        """Stamp what must not change. there: it was. compiled: it may be younger than imports."""
        if path in self._files:
            return
        at, stamp = clock(), stamp_of(path)
        if stamp and stat.S_ISDIR(stamp[2]) and not path.endswith(INSTALLED):
            return
        if not self.fault and not self._is_sure(stamp, at):
            time.sleep(TICK)  # the import itself may have written it just now
            at, stamp = clock(), stamp_of(path)
        self._files[path] = stamp
        if there and stamp is None:
            self._doubt(path, "was removed while it was imported")
        elif not self._is_sure(stamp, at if compiled else self.since):
            self._doubt(path, "is too new" if compiled else "changed while it was imported")

    def _is_sure(self, stamp: Stamp, at: int) -> bool:
        return is_sure(stamp, at, self._elsewhere)

    def _doubt(self, path: str, why: str) -> None:
        self.fault = self.fault or f"{path} {why}"

    # -- later

    def changed_variable(self, env: Mapping[str, str]) -> str:
        """Give what has changed of variables, "" if nothing has. env: those of now."""
        changed = [name for name, value in self._variables.items() if _value(env, name) != value]
        return f"the variable {min(changed)} changed" if changed else ""

    def change(self) -> str:
        """Give why these imports must never be used again: what has changed, "" if nothing has."""
        at = clock()
        why = self.fault or self.change_of_search()
        why = why or _change_in(self._packages) or self._change_of_file()
        if not why:
            self.since = at
        return why

    def change_of_search(self) -> str:
        """Give what has changed on the search path, and so what is installed, "" if nothing."""
        return _change_in(self._search)

    def _change_of_file(self) -> str:
        look = stamp_of if not self._elsewhere else self._stamp_of_opened
        for path, before in self._files.items():
            now = look(path)
            if now != before:
                why = "is new" if before is None else "was removed" if now is None else "changed"
                return f"{path} {why}"
        return ""

    def _stamp_of_opened(self, path: str) -> Stamp:
        """Give the stamp of a file, which is opened if it is elsewhere: this tells the latest."""
        stamp = stamp_of(path)
        if stamp and stamp[0] in self._elsewhere:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
            except (OSError, ValueError):
                return stamp
            stamp = stamp_of(fd)
            os.close(fd)
        return stamp


class _Directory:
    """A directory as it was.

    above: of which package, with a dot; "": of the search path. names: in it, but for links that
    lead nowhere; of the search path, those that an import could take. stamp: None if it is no
    directory, () if it does not show each change, as one that was taken within the tick of one.
    """

    def __init__(self, path: str, elsewhere: frozenset[int], above: str = "") -> None:
        self._path, self.above = path, above
        at = clock()
        self.stamp = _stamp_of_directory(path)
        if not is_sure(self.stamp, at, elsewhere):
            self.stamp = ()
        self.names = self._names()

    def _names(self) -> tuple[str, ...]:
        names: list[str] = []
        try:
            with os.scandir(self._path) as entries:
                for entry in entries:
                    if entry.name == CACHE or not self._counts(entry.name):
                        continue
                    if entry.is_symlink() and not os.path.exists(entry.path):
                        self.stamp = ()  # what it leads to may come without a change here
                    else:
                        names.append(entry.name)
        except OSError:
            return ()
        return tuple(sorted(names))

    def _counts(self, name: str) -> bool:
        stem, dot, rest = name.partition(".")
        importable = stem.isidentifier() and (not dot or dot + rest in SUFFIXES)
        return bool(self.above) or importable or name.endswith(INSTALLED)

    def changed(self) -> str:
        """Give the first name that has come or gone, "" if there is none."""
        if self.stamp and _stamp_of_directory(self._path) == self.stamp:
            return ""
        return min({*self._names()} ^ {*self.names}, default="")


def _change_in(directories: Mapping[str, _Directory]) -> str:
    for path, seen in directories.items():
        name = seen.changed()
        if name:
            return f"{os.path.join(path, name)} {'was removed' if name in seen.names else 'is new'}"
    return ""


class _Sought:
    """A finder of modules that finds none; it keeps the names of those that are sought."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Note the name."""
        self.names.add(name)


def _value(env: Mapping[str, str], name: str) -> object:
    """Give the value of a variable, or with a star at its end, all that begin so."""
    if not name.endswith("*"):
        return env.get(name)
    return {n: value for n, value in env.items() if n.startswith(name[:-1])}


class _NotedVariables(_Variables):
    """The variables of this process; keeps the names of those that are asked for or set by name.

    Who goes through all of them is taken to look for those that begin with the name of its package:
    `TQDM_*`.
    """

    def __init__(self, of: dict[bytes, bytes], names: set[str]) -> None:
        super().__init__(of)
        self._names = names

    def __iter__(self) -> Iterator[bytes]:
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame.f_back is not None and frame.f_globals.get("__name__") in _BETWEEN:
            frame = frame.f_back
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        self._names.add(f"{package.upper()}_*")
        return super().__iter__()

    def __getitem__(self, name: bytes) -> bytes:
        # `os.environ` asks: for a view of all items or values, or for who names one.
        if sys._getframe(2).f_code.co_name != "__iter__":  # pyright: ignore[reportPrivateUsage]
            self._names.add(os.fsdecode(name))
        return super().__getitem__(name)

    def __setitem__(self, name: bytes, value: bytes) -> None:
        self._names.add(os.fsdecode(name))  # ranks that begin with another value would keep it
        super().__setitem__(name, value)

    def __contains__(self, name: object) -> bool:
        if isinstance(name, bytes):
            self._names.add(os.fsdecode(name))
        return super().__contains__(name)


def _mapped() -> Iterator[str]:
    """Give the files that this process has mapped: its interpreter and libraries."""
    with open("/proc/self/maps", "rb") as f:
        lines = f.read().splitlines()
    for line in lines:
        path = b"".join(line.split(maxsplit=5)[5:])
        is_used = b"x" in line.split(maxsplit=2)[1] or not path.endswith(b" (deleted)")
        if is_used and path.startswith(b"/") and not path.startswith(_NO_FILES):
            yield os.fsdecode(path)


def clock() -> int:
    """Give the time by which files are stamped now, in ns: that of the kernel's last tick."""
    return time.clock_gettime_ns(_COARSE)


def _started() -> int:
    """Give the time, as `clock` does, before which this process was not there."""
    ticks = int(process_fields("self")[19])
    age = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * _SECOND // os.sysconf("SC_CLK_TCK")
    return clock() - age - int(TICK * _SECOND)


def stamp_of(file: str | int) -> Stamp:
    """Give the stamp of what a path or descriptor leads to, None if it leads to nothing."""
    try:
        s = os.stat(file)
    except (OSError, ValueError):
        return None
    return s.st_dev, s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns


def _stamp_of_directory(path: str) -> Stamp:
    """Give the stamp of a directory, which changes with the names in it; None for another file."""
    stamp = stamp_of(path)
    return stamp if stamp and stat.S_ISDIR(stamp[2]) else None


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


def forget_searches() -> None:
    """Have modules searched for anew: what a finder remembers of a directory may be old.

    It compares the time of the directory, which does not show a change in the same tick.
    """
    finders: dict[str, Any] = dict(sys.path_importer_cache)
    for path, finder in finders.items():
        if finder is None:
            del sys.path_importer_cache[path]  # nothing was there
        elif hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()
    metadata: Any = sys.modules.get("importlib.metadata")
    if metadata is not None:
        metadata.MetadataPathFinder().invalidate_caches()  # a method of objects before Python 3.12
