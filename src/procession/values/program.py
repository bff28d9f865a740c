"""What a rank runs: a command, a script, a module or a function, read and checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from procession.values.base import Value, cast
from procession.values.errors import SpecError
from procession.values.ranks import by_rank, is_by_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Command(Value):
    """A program, started by exec. argv: its name or path, and its arguments."""

    argv: tuple[str, ...]


class Script(Value):
    """A Python script (or a directory or zip file with a `__main__.py`), as `python PATH ARGS`."""

    path: str
    args: tuple[str, ...] = ()


class Module(Value):
    """A Python module, as `python -m NAME ARGS`."""

    name: str
    args: tuple[str, ...] = ()


class Function(Value):
    """A callable, called with each rank's arguments; its value is the rank's.

    main: the main program, if unpickling imports it again, as under `multiprocessing`; it says what
    can be preloaded.
    """

    call: Callable[..., Any]
    main: Script | Module | None = None


Program = Command | Script | Module | Function


def as_program(program: Any) -> Program:
    """Read what the user gave: a callable, a list of strings, or a program's name."""
    if isinstance(program, Script):
        path, *args = _words("the script's ", (program.path, *program.args))
        return Script(path, tuple(args))
    if isinstance(program, (Command, Module, Function)):
        return program
    if isinstance(program, (str, os.PathLike)):
        return Command((os.fspath(cast("str | os.PathLike[str]", program)),))
    if isinstance(program, Sequence):
        words = _words("the command's ", cast("Sequence[Any]", program))
        if not words:
            raise SpecError("the command is empty: give a program and its arguments")
        return Command(words)
    if callable(program):
        return Function(program)
    raise SpecError(
        f"cannot run {program!r}: give a function, a list such as ['python', 'train.py'], "
        "or the name of a program"
    )


def _words(what: str, given: Sequence[Any]) -> tuple[str, ...]:
    """Give the words of a command line. Raises SpecError for what cannot be one."""
    for i, word in enumerate(given):
        if not isinstance(word, (str, os.PathLike)):
            raise SpecError(
                f"{what}word {i} is {word!r}, of type {type(word).__name__}; each must be a "
                "string or a path"
            )
        if "\0" in os.fspath(cast("str", word)):
            raise SpecError(f"{what}word {i}, {word!r}, holds a NUL character")
    return tuple(os.fspath(cast("str", word)) for word in given)


def programs_by_rank(program: Any, nproc: int) -> list[Program]:
    """Read what each rank runs: one program for all, or a mapping by rank. Raises ValueError."""
    if not is_by_rank(program):
        return [as_program(program)] * nproc
    targets = [as_program(each) for each in by_rank(program, nproc, "program")]
    if any(isinstance(t, Function) for t in targets):
        raise SpecError("program: functions cannot be given by rank; let one function call others")
    return [targets[0]] * nproc if all(t == targets[0] for t in targets) else targets


def check_programs(
    targets: list[Program],
    args: Sequence[tuple[Any, ...]],
    kwargs: Sequence[Mapping[str, Any]],
    env: Sequence[Mapping[str, str | None]],
    cwd: str,
) -> None:
    """Check each rank's program with its arguments and variables. Raises SpecError."""
    if isinstance(targets[0], Function):
        return
    if any(kwargs):
        raise SpecError("kwargs are for functions; a command takes args only")
    for rank, words in enumerate(args):
        _words(f"args of rank {rank}: ", words)
    first: dict[tuple[Program, str | None], int] = {}  # thousands of ranks may run one program
    for rank, (target, variables) in enumerate(zip(targets, env, strict=True)):
        first.setdefault((target, variables.get("PATH")), rank)
    for (target, path), rank in first.items():
        if isinstance(target, Command):
            problem = program_problem(target.argv[0], cwd, path)
            if problem:
                raise SpecError(f"rank {rank}: {problem}")
        elif isinstance(target, Script):
            place = os.path.join(cwd, target.path)
            if not os.path.exists(place):
                raise SpecError(f"there is no script {target.path!r}")
            if not os.access(place, os.R_OK):
                raise SpecError(f"the script {target.path!r} cannot be read: permission denied")


def program_problem(word: str, cwd: str | None = None, path: str | None = None) -> str:
    """Say why `exec` of this word would fail, "" if nothing is known against it."""
    if "\0" in word or not word:
        return f"{word!r} is not the name of a program"
    if "/" in word:
        place = os.path.join(cwd or "", word)
        if not os.path.exists(place):
            return f"there is no program {word!r}"
        if os.path.isdir(place):
            return f"{word!r} is a directory, not a program"
        if not may_run(place):
            return f"{word!r} is not executable; chmod +x it, or name its interpreter"
        return ""
    if not is_on_path(word, path):
        hint = ""
        if len(word.split()) > 1:
            hint = f"; for a command with arguments give a list: {word.split()!r}"
        elif word.endswith(".py") and os.path.isfile(os.path.join(cwd or "", word)):
            hint = f"; for a Python script give a list: [sys.executable, {word!r}]"
        return f"there is no program {word!r} on the PATH{hint}"
    return ""


def is_on_path(word: str, path: str | None = None) -> bool:
    """Tell whether a program of this name is found; path: the PATH, this process's if None."""
    path = os.environ.get("PATH", os.defpath) if path is None else path
    places = [os.path.join(directory, word) for directory in path.split(os.pathsep) if path]
    return any(may_run(place) and not os.path.isdir(place) for place in places)


def hides_nothing(word: str) -> bool:
    """Tell whether this is a directory without a program, and the name of one on the PATH."""
    main = os.path.join(word, "__main__.py")
    return os.path.isdir(word) and not os.path.exists(main) and is_on_path(word)


def may_run(path: str) -> bool:
    """Tell whether this process may execute a file, or search a directory.

    It may do so by a capability alone, which counts only where effective rights are asked for.
    """
    return os.access(path, os.X_OK, effective_ids=os.access in os.supports_effective_ids)


def words_of(target: Program) -> list[str]:
    """Give the words of a program's command line, or the name of a function."""
    if isinstance(target, Function):
        return [default_name(target)]
    if isinstance(target, Command):
        return list(target.argv)
    return [target.path if isinstance(target, Script) else target.name, *target.args]


def default_name(target: Program) -> str:
    """Give the name that a group has by its program."""
    if isinstance(target, Function):
        return str(getattr(target.call, "__name__", type(target.call).__name__))
    if isinstance(target, Command):
        return os.path.basename(target.argv[0])
    if isinstance(target, Script):
        return os.path.basename(target.path)
    return target.name
