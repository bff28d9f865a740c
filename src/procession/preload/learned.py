"""What the last run of a program had imported at its end: one small file for each program.

As long as there is none, what was foreseen by reading (`later`) stands in its place.

Rank 0 reports it after its outcome (`worker.modules`), and the next launch of the same program
imports it early. The files lie in the user's cache directory, in a directory that only the user can
read. What a file says is checked against the interpreter and the installed packages before it is
used; what is no longer true, or no longer safe, is left out. Nothing here raises: where nothing can
be written, or the file is damaged, nothing is learned.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from procession.forkserver.boot import interpreter_flags
from procession.preload import safe
from procession.preload.plan import Plan
from procession.system.directories import read_cached, write_cached
from procession.values.environment import among
from procession.values.program import Function, Module, Script
from procession.values.spec import Spec
from procession.worker.modules import MOVES, SETS_LOGGERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    _Stamp = list[Any]  # file, time of its last change in ns, size, inode

MOST_PROGRAMS = 200
LARGEST = 256 << 10  # bytes of one file

CACHE = "learned"
FOR_ALL = (SETS_LOGGERS, MOVES)  # changes that any module may see
_FORMAT = 3


class Learning:
    """What is known of the program of one group, and what its rank 0 reports.

    known: modules that the last launch of the program had imported at its end, or, before the
    first one, those that it is foreseen to import.
    """

    def __init__(self, spec: Spec, plan: Plan) -> None:
        kind, name, file = _name_of(spec)
        self._key = program_key(kind, name, interpreter_flags(), file)
        self._planned = plan.modules
        self.known = load(self._key, plan.modules, plan.later)

    @property
    def packages(self) -> list[str]:
        """The packages whose modules rank 0 is to report."""
        return sorted({name.partition(".")[0] for name in self._planned})

    def forget(self) -> None:
        """Keep nothing of this program, and learn nothing: ranks could not be forked."""
        forget(self._key, _files(self.known))
        self._planned = ()

    def take(self, report: bytes) -> None:
        """Keep what rank 0 reports (see `worker.modules`), if it says something new."""
        try:
            modules, files, changes, temporary = json.loads(report)
            fresh = not {*modules} <= {*self.known, *self._planned}
            if self._planned and (fresh or changes):
                store(self._key, modules, files, changes, self.known, temporary)
        except (ValueError, TypeError, AttributeError, RecursionError):
            pass  # there is none, or it is not our bootstrap's


def _name_of(spec: Spec) -> tuple[str, str, str]:
    """Give kind and name of a program, and the file that it is in, "" if that is not known."""
    program = spec.program
    if isinstance(program, Script):
        path = os.path.join(spec.cwd, program.path)
        return "script", path, path
    if isinstance(program, Module):
        return "module", f"{spec.cwd}:{program.name}", ""
    assert isinstance(program, Function)
    if program.main is not None:
        main = program.main
        where = main.path if isinstance(main, Script) else main.name
        return "function", f"{os.path.abspath(where)}:{spec.name}", os.path.abspath(where)
    call = getattr(program.call, "func", program.call)
    module = str(getattr(call, "__module__", ""))
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    if module == "__main__":
        module = os.path.abspath(file or ".")
    name = getattr(call, "__qualname__", type(call).__qualname__)
    return "function", f"{module}:{name}", os.path.abspath(file) if file else ""


def program_key(kind: str, name: str, flags: Sequence[str] = (), file: str = "") -> str:
    """Give the key of a program, for this interpreter.

    kind: "script", "module" or "function".
    name: a script's path, or a module's name; of a function, `module:qualname`.
    flags: the interpreter's options, as `subprocess._args_from_interpreter_flags` gives them.
    file: where its source is, "" if that is not known; of a script, the script. If it has changed,
        it is another program.
    """
    if kind == "script":
        file = name = os.path.realpath(name)
    parts = [kind, name, _stamp(file), list(flags), sys.executable, sys.prefix, sys.version]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def load(
    program_key: str, within: Collection[str], foreseen: Sequence[str] = ()
) -> tuple[str, ...]:
    """Give what the program had imported at its end, in the order in which it was loaded.

    within: modules that are preloaded anyway; only what belongs to their packages is given. Of
        other packages it is not sure that the program will import them before it changes what they
        see.
    foreseen: what to give instead, of packages of which nothing is known.

    Only modules that `safe.verdict` accepts, of packages that have not changed since. Empty if
    nothing is known.
    """
    record = _read(program_key)
    modules, stamps = record.modules, record.packages
    packages = {name.partition(".")[0] for name in within} - {"procession"}
    fresh = {top for top in packages & stamps.keys() if _stamp(stamps[top][0]) == stamps[top]}
    now = [name for name in foreseen if name.partition(".")[0] not in fresh]
    now += [name for name in modules if name.partition(".")[0] in fresh]
    return tuple(name for name in now if safe.verdict(name).safe)


def store(
    program_key: str,
    modules: Iterable[str],
    files: Mapping[str, str],
    changes: Iterable[tuple[str, str | None, int]] = (),
    known: Iterable[str] = (),
    temporary: str | None = None,
) -> None:
    """Keep what a program had imported at its end.

    modules: the names in its `sys.modules`, in that order.
    files: top-level packages to their `__file__`; those without are not kept.
    changes: what it changed that imports may see, and how many of the modules had been loaded by
        then: a variable of its environment, also if it put back what was there, with the new value
        (None: none); or one of `FOR_ALL`. Nothing is kept of modules that came after the first
        change. What listed modules write when they are imported does not count.
    known: what was kept of it before, and so was imported before it began.
    temporary: where its temporary files are; None: where this process's are.

    What a program has changed once counts for all its later runs, whether they change it or not: no
    module is kept that sees it.
    """
    by_program = [
        (what, at) for what, value, at in changes if not safe.set_by_import(what, value, temporary)
    ]
    every, known = list(modules), list(known)
    early = every[: min((at for _, at in by_program), default=len(every))]
    record = _read(program_key)
    changed = {*record.changed, *(what for what, _ in by_program)}
    stamps = {top: _stamp(file) for top, file in files.items() if top in safe.packages()}
    unchanged = {top: stamp for top, stamp in stamps.items() if stamp is not None}
    kept: list[str] = []
    for name in (*known, *early):
        verdict = safe.verdict(name) if name.partition(".")[0] in unchanged else None
        if verdict is None or not verdict.safe:
            continue
        if not any(what in FOR_ALL or among(verdict.variables, what) for what in changed):
            kept.append(name)
    # Also packages of which nothing is kept: so nothing is foreseen of them.
    tops = {name.partition(".")[0] for name in (*known, *every)} & unchanged.keys()
    if not _is_unfit(program_key):
        packages = {top: unchanged[top] for top in sorted(tops)}
        said = {"packages": packages, "modules": kept, "changed": sorted(changed)}
        if {**said, "unfit": False} != vars(record):
            _write(program_key, said)


def forget(program_key: str, files: Mapping[str, str] = MappingProxyType({})) -> None:
    """Keep nothing of a program any more, nor take anything new as long as its packages stay.

    files: of packages that count, too, though nothing was kept of them.
    """
    stamps = {top: _stamp(file) for top, file in files.items()}
    packages = {top: stamp for top, stamp in stamps.items() if stamp is not None}
    packages |= _read(program_key).packages
    if packages:
        _write(program_key, {"packages": packages, "modules": (), "unfit": True})


def _files(modules: Iterable[str]) -> dict[str, str]:
    """Give the packages of installed modules, and their files."""
    from procession.preload.find import Search

    search = Search(sys.path)
    tops = dict.fromkeys(name.partition(".")[0] for name in modules)
    return {top: file for top in tops if (file := search.find(top).file)}


def _is_unfit(program_key: str) -> bool:
    record = _read(program_key)
    return record.unfit and all(_stamp(s[0]) == s for s in record.packages.values())


def _stamp(file: str) -> _Stamp | None:
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return [file, status.st_mtime_ns, status.st_size, status.st_ino]


class _Record:
    """What a file says: see `store` and `forget`. Empty if it is damaged."""

    def __init__(self, text: bytes) -> None:
        self.modules: list[str] = []
        self.packages: dict[str, _Stamp] = {}
        self.changed: list[str] = []
        self.unfit = False
        try:
            record: Any = json.loads(text or b"{}")
            if record.get("format") == _FORMAT:
                packages = {top: [str(s[0]), *s[1:]] for top, s in record["packages"].items()}
                modules = [name for name in record["modules"] if isinstance(name, str)]
                self.changed = [str(what) for what in record.get("changed", ())]
                self.modules, self.packages = modules, packages
                self.unfit = record.get("unfit") is True
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            pass


def _read(program_key: str) -> _Record:
    return _Record(read_cached(CACHE, f"{program_key}.json", LARGEST) or b"")


def _write(program_key: str, record: Mapping[str, object]) -> None:
    text = json.dumps({"format": _FORMAT, **record}).encode()
    if len(text) <= LARGEST:
        write_cached(CACHE, f"{program_key}.json", text, most=MOST_PROGRAMS)
