"""What PROGRAM is, or why it cannot be run; with nothing of it imported or started."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder

from procession.cli.parser import near
from procession.errors import SpecError
from procession.spec import Command, Module, Program, Script, is_on_path, program_problem

SCRIPT_ENDINGS = (".py", ".pyw", ".pyc", ".pyz")


def choose_program(word: str, args: list[str], *, module: bool, no_python: bool) -> Program:
    """Decide what PROGRAM is. Raises SpecError where it is nothing that can be run.

    A path that exists is a script if it ends in .py, or is not executable, or is a directory or an
    archive with a `__main__.py`; everything else is a program.
    """
    if module:
        problem = module_problem(word)
        if problem:
            hint = f"; to run the file {word}, leave out -m" if os.path.isfile(word) else ""
            raise SpecError(problem + hint)
        return Module(word, tuple(args))
    if not no_python:
        if os.path.isdir(word):
            if not os.path.exists(os.path.join(word, "__main__.py")):
                raise SpecError(f"{word!r} is a directory without a __main__.py")
            return Script(word, tuple(args))
        ends = word.endswith(SCRIPT_ENDINGS)
        if not ends and _is_foreign(word):
            raise SpecError(f"{word!r} is not executable; chmod +x it, or name its interpreter")
        if os.path.exists(word) and (ends or not os.access(word, os.X_OK)):
            return Script(word, tuple(args))
        if ends:
            raise SpecError(f"there is no script {word!r}{_similar(word)}")
    if word and "/" not in word and not is_on_path(word):
        kind = "program" if no_python else "script or program"
        raise SpecError(f"there is no {kind} {word!r} on the PATH{_nearby(word)}")
    problem = program_problem(word)
    if problem:
        raise SpecError(problem)
    return Command((word, *args))


def _is_foreign(path: str) -> bool:
    """Whether a file that is not executable names an interpreter other than Python."""
    if not os.path.isfile(path) or os.access(path, os.X_OK):
        return False
    try:
        with open(path, "rb") as f:
            first = f.readline(200)
    except OSError:
        return False  # that is said where it is opened
    return first.startswith(b"#!") and b"python" not in first


def _similar(word: str) -> str:
    """Name the script beside it that was probably meant."""
    place, name = os.path.split(word)
    try:
        found = [each for each in os.listdir(place or ".") if each.endswith(SCRIPT_ENDINGS)]
    except OSError:
        return f": there is no directory {place!r}"
    meant = near(name, found)
    return f"; did you mean {os.path.join(place, meant)}?" if meant else ""


def _nearby(word: str) -> str:
    """Name the file that was probably meant by the name of a program."""
    if os.path.isfile(word) and os.access(word, os.X_OK):
        return f"; for the one in this directory, write ./{word}"
    if os.path.isfile(f"{word}.py"):
        return f"; did you mean {word}.py?"
    return "; write a program and its arguments as words of their own" if " " in word else ""


# -- modules


def module_problem(name: str) -> str:
    """Say why `python -m NAME` would fail, "" if nothing is known against it.

    Packages are not imported, so one that makes up its submodules when it is imported is searched
    wherever Python might find them.
    """
    if name in sys.builtin_module_names:
        return f"{name!r} is built into Python, and no program"
    isolated = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
    places = sys.path if isolated else ["", *sys.path]
    missing = f"there is no module {name!r}"
    whole = ""
    for part in name.split("."):
        found = PathFinder.find_spec(part, places) if part else None
        if found is None:
            if not whole:
                known = _found_otherwise(part)
                return "" if known else f"{missing} on the path"
            return f"{missing} in the package {whole!r}"
        whole = f"{whole}.{part}" if whole else part
        if found.submodule_search_locations is None:
            return "" if whole == name else f"{missing}: {whole!r} is no package"
        # A package may have added to its path what lies elsewhere under its name.
        places = [*found.submodule_search_locations, *(os.path.join(p, part) for p in places)]
    if PathFinder.find_spec("__main__", places) is None:
        return f"{name!r} is a package without a __main__.py"
    return ""


def _found_otherwise(name: str) -> bool:
    """Whether another finder of this interpreter knows a module, which may have anything in it."""
    finders = [finder for finder in sys.meta_path if finder is not PathFinder]
    return bool(name) and any(_ask(finder, name) for finder in finders)


def _ask(finder: object, name: str) -> ModuleSpec | None:
    find = getattr(finder, "find_spec", None)
    return None if find is None else find(name, None)


__all__ = ["choose_program", "module_problem"]
