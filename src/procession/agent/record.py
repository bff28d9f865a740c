"""What an agent has imported, with records of what decided it: plain values, to be compared later.

Theory of operation. An agent that is kept makes the imports of its first launch, and those that
later launches need beside them. Of each time there is a record, a layer. If one of them is no
longer true, what the process holds is useless. Only imports of installed packages are kept
(`preload.choose`): they read little, and change by an installation.

`record` goes through what an `Observer` saw, and through the modules that are new. Each file is
stamped again: if it has changed since before the import read it, nobody can say what was imported,
and the record has a `fault`. In a directory only those names count that could change the result of
a search: a name that would hide a module, or one that was looked for and not found. So a log file
that is made beside a program changes nothing. The record of the lowest layer also has what the
interpreter itself has read: its binary, every mapped library, `pyvenv.cfg`, `.pth` files. What
native code reads of variables stands on the list of safe packages, and the next launcher compares
it.

A record is a dict:
    fault        why these imports must not be used again, ""
    files        {path: its stamp, None if nothing is there, () for a directory}
    opened       [path] to be opened to be stamped, since they lie on another machine
    directories  [(path, stamp or None, names, whole, relevant entries)]
    variables    {name: value or None} of those that were asked for by name

Not seen are files that native code opens itself (except libraries), and checks whether a path
exists.

Whether a record is still true is asked at each launch that could use it, so that is one loop over
thousands of files; those of torch take some 10 ms. Directories come first: they show most changes
at the least cost.

Rejected: to load changed modules again in place (`importlib.reload`). Other modules and objects
would still refer to the old ones.
"""

from __future__ import annotations

import os
import site
import sys
import time

from procession.agent import stamps
from procession.agent.observing import Listing, Observer, entries_of, relevant

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from procession.agent.stamps import Stamp

    Record = dict[str, Any]

# What the C library, the loader and OpenSSL read.
_SYSTEM_FILES = ("/etc/passwd", "/etc/group", "/etc/hostname", "/etc/localtime", "/etc/timezone",
                 "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ssl/openssl.cnf",
                 "/usr/lib/ssl/openssl.cnf", "/usr/local/ssl/openssl.cnf")  # fmt: skip
_NO_FILES = (b"/dev/", b"/memfd:", b"/SYSV")  # that stand among the mapped ones


class Layers:
    """The records of this process, lowest first.

    late: something was imported before, and nobody knows what decided it. fault: why these layers
    must not be used again, whatever changes; "" if they may.
    """

    def __init__(self, *, late: bool = False) -> None:
        self.records: list[Record] = []
        self.fault = "it was not observed from the beginning" if late else ""
        self.observer = Observer()
        self._before: set[str] = set()

    def close(self, env: Mapping[str, str]) -> None:
        """End a layer: what comes now belongs to another one. env: the variables it found."""
        new = [name for name in list(sys.modules) if name not in self._before]
        self._before.update(new)
        self.records.append(record(self.observer, new, env, lowest=not self.records))
        self.fault = self.fault or self.records[-1]["fault"]

    def reason_against(self, env: Mapping[str, str]) -> str:
        """Give why these layers must not be used: what has changed, "" if nothing has.

        env: the variables that the imports would find now.
        """
        reasons = [self.fault, *(reason_against(each, env) for each in self.records)]
        return next(filter(None, reasons), "")


def record(
    observer: Observer, modules: list[str], env: Mapping[str, str], *, lowest: bool
) -> Record:
    """Give what decided the imports since the last record; the observer begins anew.

    modules: those that are new in `sys.modules`. env: the variables that the imports found. lowest:
    also what the interpreter itself has read.
    """
    found = _Recording(observer, lowest=lowest).of(modules)
    found["variables"] = {name: env.get(name) for name in observer.variables}
    observer.forget()
    return found


class _Recording:
    def __init__(self, observer: Observer, *, lowest: bool) -> None:
        self._observer = observer
        self._lowest = lowest
        self._since = stamps.started() if lowest else observer.began
        self._files: dict[str, Stamp] = {}
        self._fault = observer.unknown

    def of(self, modules: list[str]) -> Record:
        elsewhere = self._observer.elsewhere
        if self._lowest:
            self._search_of_interpreter(modules)
        for path in self._observer.opened:
            self._was_opened(path)
        for name in modules:
            self._module(name)
        for path in _mapped():
            self._is_mapped(path)
        directories = self._directories()
        return {
            "fault": self._fault,
            "files": self._files,
            "opened": [p for p, s in self._files.items() if s and s[0] in elsewhere],
            "directories": directories,
        }

    def _is_sure(self, stamp: Stamp, at: int) -> bool:
        return stamps.is_sure(stamp, at, self._observer.elsewhere)

    def _add(self, path: str) -> Stamp:
        """Stamp a file; gives the stamp."""
        at = stamps.clock()
        stamp = stamps.of(path)
        if not self._fault and not self._is_sure(stamp, at):
            time.sleep(stamps.TICK)  # the import itself may have written it just now
            at = stamps.clock()
            stamp = stamps.of(path)
            if not self._is_sure(stamp, at):
                self._doubt(path, "is too new")
        self._files[path] = stamp
        return stamp

    def _doubt(self, path: str, why: str) -> None:
        self._fault = self._fault or f"{path} {why}"

    # -- files

    def _was_opened(self, path: str) -> None:
        observer = self._observer
        before, after = observer.opened[path], self._add(path)
        unchanged = after == before.stamp and self._is_sure(after, before.at)
        # A source was compiled where its compiled code has changed.
        if not (unchanged or path in observer.written or _source_of(path) in observer.opened):
            self._doubt(path, "changed while it was imported")

    def _module(self, name: str) -> None:
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        if name != "__main__" and getattr(spec, "has_location", False):
            for path in (getattr(spec, "origin", None), getattr(spec, "cached", None)):
                if isinstance(path, str):
                    self._was_there(os.path.abspath(path))
        said = getattr(module, "__file__", None)  # of modules that were made by hand, anything
        if isinstance(said, str) and os.path.isabs(said) and said not in self._files:
            self._add(said)

    def _was_there(self, path: str) -> None:
        """Add a file that was read without being opened by Python, or before it was observed."""
        if path in self._files:
            return
        stamp = self._add(path)
        if stamp is None:
            archive = _archive_of(path)
            if archive:
                self._was_there(archive)
            elif not path.endswith(".pyc"):
                self._doubt(path, "was removed while it was imported")
        elif not self._is_sure(stamp, self._since):
            source = _source_of(path)  # that was there before may have been compiled since
            if not source or not self._is_sure(self._add(source), self._since):
                self._doubt(path, "changed while it was imported")

    def _is_mapped(self, path: str) -> None:
        if path.endswith(" (deleted)"):
            self._doubt(path.removesuffix(" (deleted)"), "was replaced while it is in use")
        else:
            self._was_there(path)

    # -- directories

    def _directories(self) -> list[tuple[Any, ...]]:
        observer = self._observer
        found: list[tuple[Any, ...]] = []
        queue = [*observer.listings.values()]
        for listing in queue:
            found.append(self._directory(listing))
            for entry in found[-1][-1]:
                path = os.path.join(listing.path, entry)
                self._candidate(path, listing)
                # A directory is a package by what is in it.
                is_package = entry in listing.names and self._files[path] == stamps.DIRECTORY
                if is_package and path not in observer.listings:
                    queue.append(observer.listing(path))
        return found

    def _directory(self, listing: Listing) -> tuple[Any, ...]:
        path, relevant = listing.path, listing.relevant(listing.entries)
        at = stamps.clock()
        after = stamps.of_directory(path)
        if after is None:
            if path not in self._files:
                self._add(path)  # an archive, or nothing
                self._was_there(_archive_of(path) or path)
        elif (after != listing.stamp or not self._is_sure(after, listing.at)) and listing.relevant(
            entries_of(path)
        ) != relevant:
            self._doubt(path, "changed while it was searched")
        stamp = after if self._is_sure(after, at) else None
        return path, stamp, tuple(sorted(listing.names)), listing.whole, relevant

    def _candidate(self, path: str, listing: Listing) -> None:
        """Add what could have been taken for a module."""
        if path not in self._files:
            stamp = self._add(path)
            if not self._is_sure(stamp, self._since if self._lowest else listing.at):
                self._doubt(path, "changed while it was searched for")

    # -- the interpreter

    def _search_of_interpreter(self, modules: list[str]) -> None:
        """Note what was read and looked for before anybody observed it."""
        own = os.path.dirname(os.path.abspath(sys.executable))
        configuration = (os.path.join(d, "pyvenv.cfg") for d in (own, os.path.dirname(own)))
        for path in (sys.executable, *configuration, *_SYSTEM_FILES):
            self._add(path)
        for name in (*modules, "sitecustomize", "usercustomize"):
            parent, _, last = name.rpartition(".")
            if name in sys.builtin_module_names or name == "__main__":
                continue
            path = getattr(sys.modules.get(parent), "__path__", ()) if parent else sys.path
            for each in path:
                if isinstance(each, str):
                    self._observer.search(each, last)
        for directory in (*site.getsitepackages(), site.USER_SITE):
            if directory:
                self._observer.listing(os.path.abspath(directory))


def _source_of(path: str) -> str:
    """Give the path of the source of compiled code, "" for what is none."""
    if not path.endswith(".pyc"):
        return ""
    import _frozen_importlib_external as machinery  # pyright: ignore[reportMissingImports]

    try:
        return machinery.source_from_cache(path)  # pyright: ignore
    except (ValueError, NotImplementedError):
        return ""


def _mapped() -> list[str]:
    """List the files that this process has mapped: its interpreter and libraries."""
    found: dict[str, None] = {}
    with open("/proc/self/maps", "rb") as f:
        for line in f:
            path = line.split(maxsplit=5)[5:]
            if not path or not path[0].startswith(b"/") or path[0].startswith(_NO_FILES):
                continue
            if b"x" in line.split(maxsplit=2)[1] or not path[0].endswith(b" (deleted)\n"):
                found[os.fsdecode(path[0].rstrip(b"\n"))] = None
    return list(found)


def _archive_of(path: str) -> str:
    """Give the file that this path leads into, "" if it leads into none."""
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        if os.path.isfile(path):
            return path
    return ""


def reason_against(layer: Record, env: Mapping[str, str]) -> str:
    """Give what has changed since the record was made, "" if nothing has: one plain reason.

    env: the variables that the imports would find now.
    """
    if layer["fault"]:
        return layer["fault"]
    changed = [name for name, value in layer["variables"].items() if env.get(name) != value]
    if changed:
        return f"the variable {min(changed)} changed"
    return _changed_directory(layer) or _changed_file(layer)


def _changed_directory(layer: Record) -> str:
    for path, before, names, whole, then in layer["directories"]:
        if before is not None and stamps.of_directory(path) == before:
            continue
        now = relevant(entries_of(path), frozenset(names), whole)
        differ = {*now} ^ {*then}
        if differ:
            entry = min(differ)
            return f"{os.path.join(path, entry)} {'is new' if entry in now else 'was removed'}"
    return ""


def _changed_file(layer: Record) -> str:
    look = stamps.of
    for path, before in layer["files"].items():
        now = look(path)
        if now != before:
            return f"{path} {'is new' if before is None else _change(now)}"
    for path in layer["opened"]:
        now = stamps.of_opened(path)
        if now != layer["files"][path]:
            return f"{path} {_change(now)}"
    return ""


def _change(now: stamps.Stamp) -> str:
    return "was removed" if now is None else "changed"


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
