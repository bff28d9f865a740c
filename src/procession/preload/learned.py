"""What the last run of a program had imported at its end: one small file for each program.

The files lie under the user's cache directory, in a directory that nobody else may enter. What a
file says is checked before it is used, against the interpreter and the installed packages; what is
no longer true, or no longer safe, is left out. Nothing here raises: without a place to write, or
with garbage in it, nothing is learned.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from procession.preload import safe
from procession.preload.variables import among
from procession.system import cachedir
from procession.typed import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    _Stamp = list[Any]  # file, time of its last change in ns, size, inode

MOST_PROGRAMS = 200
LARGEST = 256 << 10  # bytes of one file

CACHE = "learned"
_FORMAT = 1


def program_key(kind: str, name: str, flags: Sequence[str] = ()) -> str:
    """Give the key of a program, for this interpreter.

    kind: "script", "module" or "function".
    name: a script's path, or a module's name; of a function, `module:qualname`.
    flags: the interpreter's options, as `subprocess._args_from_interpreter_flags` gives them.
    """
    if kind == "script":
        name = os.path.realpath(name)
    parts = [kind, name, list(flags), sys.executable, sys.prefix, sys.version]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def load(program_key: str, within: Collection[str]) -> tuple[str, ...]:
    """Give what the program had imported at its end, in the order in which it was loaded.

    within: modules that are preloaded anyway; only what belongs to their packages is given. Of
        other packages it is not sure that the program will import them before it changes what they
        see.

    Only modules that `safe.verdict` accepts, of packages that have not changed since. Empty if
    nothing is known.
    """
    directory = cachedir.open_directory(CACHE, make=False)
    if directory is None:
        return ()
    try:
        said = _read(directory, program_key)
    finally:
        os.close(directory)
    packages = {name.partition(".")[0] for name in within} - {"procession"}
    stamps = said[1]
    fresh = {top for top in packages & stamps.keys() if _stamp(stamps[top][0]) == stamps[top]}
    return tuple(
        name for name in said[0] if name.partition(".")[0] in fresh and safe.verdict(name).safe
    )


def store(
    program_key: str,
    modules: Iterable[str],
    files: Mapping[str, str],
    changed: Mapping[str, str | None] = MappingProxyType({}),
) -> None:
    """Keep what a program had imported at its end.

    modules: the names in its `sys.modules`, in that order.
    files: top-level packages to their `__file__`; those without are not kept.
    changed: environment variables that had another value at its end (None: none) than at its
        start: modules that read one of them are not kept, since the program may set it before it
        imports them. What the modules themselves set does not count.
    """
    stamps = {top: _stamp(file) for top, file in files.items() if top in safe.packages()}
    known = {top: stamp for top, stamp in stamps.items() if stamp is not None}
    by_program = [n for n, value in changed.items() if not safe.set_by_import(n, value)]
    kept: list[str] = []
    for name in modules:
        verdict = safe.verdict(name) if name.partition(".")[0] in known else None
        if verdict is None or not verdict.safe:
            continue
        if not any(among(verdict.variables, variable) for variable in by_program):
            kept.append(name)
    tops = {name.partition(".")[0] for name in kept}
    text = json.dumps(
        {
            "format": _FORMAT,
            "packages": {top: known[top] for top in sorted(tops)},
            "modules": kept,
        }
    ).encode()
    if len(text) > LARGEST:
        return
    directory = cachedir.open_directory(CACHE, make=True)
    if directory is None:
        return
    try:
        if _is_unfit(directory, program_key):
            return
        cachedir.write_file(directory, f"{program_key}.json", text)
        _forget_oldest(directory)
    except OSError:
        pass  # no space, or no permission any more: then it is not learned
    finally:
        os.close(directory)


def forget(program_key: str) -> None:
    """Keep nothing of a program any more, nor take anything new as long as its packages stay."""
    directory = cachedir.open_directory(CACHE, make=False)
    if directory is None:
        return
    try:
        packages = _read(directory, program_key)[1]
        if packages:
            text = {"format": _FORMAT, "packages": packages, "modules": (), "unfit": True}
            cachedir.write_file(directory, f"{program_key}.json", json.dumps(text).encode())
    except OSError:
        pass  # nothing is known of it
    finally:
        os.close(directory)


def _is_unfit(directory: int, name: str) -> bool:
    _, packages, unfit = _read(directory, name)
    return unfit and all(_stamp(stamp[0]) == stamp for stamp in packages.values())


def _stamp(file: str) -> _Stamp | None:
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return [file, status.st_mtime_ns, status.st_size, status.st_ino]


_NOTHING: tuple[list[str], dict[str, _Stamp], bool] = [], {}, False


def _read(directory: int, name: str) -> tuple[list[str], dict[str, _Stamp], bool]:
    """Give the modules and packages that a file says, and whether they are of no use."""
    text = cachedir.read_file(directory, f"{name}.json", LARGEST)
    try:
        said = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return _NOTHING
    if not isinstance(said, dict):
        return _NOTHING
    record = cast("dict[str, Any]", said)
    if record.get("format") != _FORMAT:
        return _NOTHING
    modules, packages = record.get("modules"), record.get("packages")
    if not isinstance(modules, list) or not isinstance(packages, dict):
        return _NOTHING
    stamps = {
        top: cast("_Stamp", stamp)
        for top, stamp in cast("dict[str, Any]", packages).items()
        if isinstance(stamp, list) and stamp and isinstance(stamp[0], str)
    }
    names = [name for name in cast("list[Any]", modules) if isinstance(name, str)]
    return names, stamps, record.get("unfit") is True


def _forget_oldest(directory: int) -> None:
    names = os.listdir(directory)
    if len(names) <= MOST_PROGRAMS:
        return
    ages: list[tuple[int, str]] = []
    for name in names:
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            ages.append((status.st_mtime_ns, name))
        except FileNotFoundError:
            pass  # another launcher was faster
    for _, name in sorted(ages)[: max(0, len(ages) - MOST_PROGRAMS)]:
        try:
            os.unlink(name, dir_fd=directory)
        except (FileNotFoundError, IsADirectoryError):
            pass
