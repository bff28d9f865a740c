"""What decided the imports of a layer, as a plain value that can be kept and compared.

Theory of operation. `record` goes through what an `Observer` saw, and through the modules that are
new. Each file is stamped again: if it has changed since before the import read it, nobody can say
what was imported, and the record has a `fault`. In a directory only those names count that could
change the result of a search: a name that would hide a module, or one that was looked for and not
found. So a log file that is made beside a program changes nothing. The record of the lowest layer
also has what the interpreter itself has read: its binary, every mapped library, `pyvenv.cfg`,
`.pth` files.

A record is a dict of what `marshal` can write:
    fault        why these imports must not be used again, ""
    files        {path: its stamp, None if nothing is there, () for a directory}
    digests      {path: of the content} of files whose stamp is too young to count alone
    opened       [path] to be opened to be stamped, since they lie on another machine
    directories  [(path, stamp or None, names, whole, packages, paths, relevant entries)]
    variables    {name: value or None} that were asked for
    patterns     names and `X_*` of variables that are known to be read; seen: those there were
    all          all variables, None if not all were read; native: those that a native module of
                 which nothing is known may have read, None without one

Not seen are files that native code opens itself (except libraries), and checks whether a path
exists.
"""

from __future__ import annotations

import os
import site
import sys

from procession.agent import stamps
from procession.agent.observing import Listing, Observer, entries_of

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from procession.agent.stamps import Stamp

    Record = dict[str, Any]

# What the C library, the loader and OpenSSL read.
_SYSTEM_FILES = ("/etc/passwd", "/etc/group", "/etc/hostname", "/etc/localtime", "/etc/timezone",
                 "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ssl/openssl.cnf",
                 "/usr/lib/ssl/openssl.cnf", "/usr/local/ssl/openssl.cnf")  # fmt: skip
# What each launch sets anew. A native module reads none of these when it is imported.
_OF_LAUNCH = ("MASTER_", "TORCHELASTIC_", "PROCESSION_", "GROUP_", "ROLE_", "WORLD_SIZE",
              "LOCAL_WORLD_SIZE")  # fmt: skip
_NO_FILES = (b"/dev/", b"/memfd:", b"/SYSV")  # that stand among the mapped ones
_OF_SHELL = ("_", "OLDPWD", "SHLVL", "PWD")


def record(
    observer: Observer,
    modules: Iterable[str],
    env: Mapping[str, str],
    patterns: Iterable[str],
    *,
    lowest: bool,
) -> Record:
    """Give what decided the imports since the last record; the observer begins anew.

    modules: those that are new in `sys.modules`. env: the variables that the imports found.
    patterns: those that they are known to read. lowest: also what the interpreter itself has read.
    """
    return _Recording(observer, lowest=lowest).of(list(modules), dict(env), tuple(patterns))


class _Recording:
    def __init__(self, observer: Observer, *, lowest: bool) -> None:
        self._observer = observer
        self._lowest = lowest
        self._since = stamps.started() if lowest else observer.began
        self._at = stamps.clock()
        self._files: dict[str, Stamp] = {}
        self._digests: dict[str, bytes] = {}
        self._fault = observer.unknown

    def of(self, modules: list[str], env: dict[str, str], patterns: tuple[str, ...]) -> Record:
        observer = self._observer
        if self._lowest:
            self._search_of_interpreter(modules)
        for path in list(observer.opened):
            self._was_opened(path)
        for path in observer.written - observer.opened.keys():
            if os.path.exists(path):
                self._add(path)
        for name in modules:
            self._module(name)
        for path in _mapped():
            if path not in observer.mapped:
                self._is_mapped(path)
        if self._lowest:
            self._interpreter()
        directories = self._directories()
        found: Record = {
            "fault": self._fault,
            "files": self._files,
            "digests": self._digests,
            "opened": [p for p, s in self._files.items() if s and s[0] in observer.elsewhere],
            "directories": directories,
            "variables": {name: env.get(name) for name in observer.variables},
            "patterns": patterns,
            "seen": among(patterns, env),
            "all": env if observer.all_variables else None,
            "native": not_of_launch(env) if self._has_unknown_native(modules) else None,
        }
        observer.forget()
        return found

    def _add(self, path: str) -> Stamp:
        """Stamp a file; gives the stamp."""
        stamp = self._files[path] = stamps.of(path)
        if not stamps.is_sure(stamp, self._at, self._observer.elsewhere):
            digest = self._digests[path] = stamps.digest(path)
            if not digest:
                self._doubt(path, "is too new and too large")
        return stamp

    def _doubt(self, path: str, why: str) -> None:
        self._fault = self._fault or f"{path} {why}"

    # -- files

    def _was_opened(self, path: str) -> None:
        before, after = self._observer.opened[path], self._add(path)
        if path in self._observer.written:
            return
        if after == before.stamp:
            if stamps.is_sure(after, before.at, self._observer.elsewhere):
                return
            if before.digest and before.digest == stamps.digest(path):
                return
        if self._source_of(path) not in self._observer.opened:  # else that was compiled
            self._doubt(path, "changed while it was imported")

    def _module(self, name: str) -> None:
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        located = getattr(spec, "has_location", False)
        origin = getattr(spec, "origin", None) if located else None
        cached = getattr(spec, "cached", None) if located else None
        for path in (origin, cached):
            if isinstance(path, str) and name != "__main__":
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
        elif not stamps.is_sure(stamp, self._since, self._observer.elsewhere):
            source = self._source_of(path)
            if not source or not _is_compiled_from(path, source):
                self._doubt(path, "changed while it was imported")

    def _source_of(self, path: str) -> str:
        """Give the path of the source of compiled code, "" for what is none."""
        if not path.endswith(".pyc"):
            return ""
        import _frozen_importlib_external as machinery  # pyright: ignore[reportMissingImports]

        try:
            return machinery.source_from_cache(path)  # pyright: ignore
        except (ValueError, NotImplementedError):
            return ""

    def _is_mapped(self, path: str) -> None:
        self._observer.mapped.add(path)
        if path.endswith(" (deleted)"):
            self._doubt(path.removesuffix(" (deleted)"), "was replaced while it is in use")
        else:
            self._was_there(path)

    # -- directories

    def _directories(self) -> list[tuple[Any, ...]]:
        listings = self._observer.listings
        done: dict[str, tuple[Any, ...]] = {}
        names: dict[str, int] = {}  # how many were looked for in each, when it was gone through
        # A directory can get one more while another one is gone through: `__init__`.
        while missing := [p for p, found in listings.items() if names.get(p) != len(found.names)]:
            for path in missing:
                names[path] = len(listings[path].names)
                done[path] = self._directory(path, listings[path])
        return list(done.values())

    def _directory(self, path: str, listing: Listing) -> tuple[Any, ...]:
        after = stamps.of_directory(path)
        elsewhere = self._observer.elsewhere
        relevant = listing.relevant(listing.entries)
        if after is None:
            if path not in self._files:
                self._add(path)  # an archive, or nothing
                self._was_there(_archive_of(path) or path)
        elif (
            after != listing.stamp or not stamps.is_sure(after, listing.at, elsewhere)
        ) and listing.relevant(entries_of(path)) != relevant:
            self._doubt(path, "changed while it was searched")
        for entry in relevant:
            self._candidate(os.path.join(path, entry), listing)
        sure = stamps.is_sure(after, self._at, elsewhere)
        return (
            path,
            after if sure else None,
            tuple(sorted(listing.names)),
            listing.whole,
            listing.packages,
            listing.paths,
            relevant,
        )

    def _candidate(self, path: str, listing: Listing) -> None:
        """Add what could have been taken for a module: a package is one by what is in it."""
        if path not in self._files:
            stamp = self._add(path)
            at = self._since if self._lowest else listing.at
            if not stamps.is_sure(stamp, at, self._observer.elsewhere):
                self._doubt(path, "changed while it was searched for")
        name = os.path.basename(path)
        if self._files[path] == stamps.DIRECTORY and name in listing.names:
            self._observer.search(path, "__init__")

    # -- the interpreter

    def _search_of_interpreter(self, modules: list[str]) -> None:
        """Note what was looked for before anybody observed it."""
        for name in (*modules, "sitecustomize", "usercustomize"):
            parent, _, last = name.rpartition(".")
            if name in sys.builtin_module_names or name == "__main__":
                continue
            path = getattr(sys.modules.get(parent), "__path__", ()) if parent else sys.path
            for each in path:
                if isinstance(each, str):
                    self._observer.search(each, last)

    def _interpreter(self) -> None:
        own = os.path.dirname(os.path.abspath(sys.executable))
        for path in (
            sys.executable,
            os.path.join(own, "pyvenv.cfg"),
            os.path.join(os.path.dirname(own), "pyvenv.cfg"),
            *_SYSTEM_FILES,
        ):
            if path not in self._files:
                self._add(path)
        for directory in _site_directories():
            self._observer.search(directory)
            listing = self._observer.listings[os.path.abspath(directory)]
            listing.paths = True
            for name in listing.relevant(listing.entries):
                if name.endswith(".pth"):
                    self._path_file(directory, name)

    def _path_file(self, directory: str, name: str) -> None:
        """Add what a `.pth` file names: what is not there is not put on the path."""
        self._was_there(os.path.join(directory, name))
        try:
            with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as f:
                lines = f.read().splitlines()
        except OSError:
            return
        for line in lines:
            text = line.strip()
            if text and not text.startswith(("#", "import ", "import\t")):
                self._observer.search(os.path.join(directory, text))

    def _has_unknown_native(self, modules: list[str]) -> bool:
        for name in modules:
            top = name.partition(".")[0]
            if top in sys.stdlib_module_names or top in self._observer.listed:
                continue
            spec = getattr(sys.modules.get(name), "__spec__", None)
            if type(getattr(spec, "loader", None)).__name__ == "ExtensionFileLoader":
                return True
        return False


def among(patterns: Iterable[str], env: Mapping[str, str]) -> dict[str, str]:
    """Give the variables whose names these patterns match; `X_*` is all that begin with `X_`."""
    patterns = tuple(patterns)
    names = frozenset(patterns)
    beginnings = tuple(p[:-1] for p in patterns if p.endswith("*"))
    return {n: v for n, v in env.items() if n in names or n.startswith(beginnings)}


def not_of_launch(env: Mapping[str, str]) -> dict[str, str]:
    """Give the variables but those that each launch, and the shell, sets anew."""
    return {n: v for n, v in env.items() if n not in _OF_SHELL and not n.startswith(_OF_LAUNCH)}


def _site_directories() -> list[str]:
    if sys.flags.no_site:
        return []
    found = [*site.getsitepackages()]
    if site.ENABLE_USER_SITE is not None and site.USER_SITE:
        found.append(site.USER_SITE)
    return found


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


def _is_compiled_from(path: str, source: str) -> bool:
    """Whether compiled code says that it is of this source as it is now."""
    stamp = stamps.of(source)
    try:
        with open(path, "rb") as f:
            head = f.read(16)
    except OSError:
        return False
    if not stamp or len(head) < 16 or head[4:8] != bytes(4):
        return False
    *_, size, mtime, _ = stamp
    when, length = int.from_bytes(head[8:12], "little"), int.from_bytes(head[12:16], "little")
    return (when, length) == (mtime // 1_000_000_000 & 0xFFFFFFFF, size & 0xFFFFFFFF)
