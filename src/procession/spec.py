"""What to run: the program of a group, its ranks' arguments and environment, and its policies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from procession.errors import GroupEnd, SpecError
from procession.placement import NO_PLACEMENT, Placement
from procession.policy import (
    DEFAULT_HANG,
    DEFAULT_LOGS,
    DEFAULT_STOP,
    NO_RESTART,
    Hang,
    Logs,
    Restart,
    Route,
    Stop,
)
from procession.rankenv import ALONE, Node
from procession.ranks import by_rank, is_by_rank
from procession.typed import cast
from procession.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    StartMethod = Literal["forkserver", "spawn", "fork"]

MOST_RANKS = 32768  # the numbers that processes have, unless somebody raised kernel.pid_max
START_METHODS: tuple[StartMethod, ...] = ("forkserver", "spawn", "fork")


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

    main: the main program, where unpickling imports it again, as under `multiprocessing`; what
    can be preloaded is told by it.
    """

    call: Callable[..., Any]
    main: Script | Module | None = None


Program = Command | Script | Module | Function


class Spec(Value):
    """A group to be started; made and checked by `make_spec`.

    program: what rank 0 runs, and all others too, unless `programs` says it by rank. args, kwargs
    and env are by rank. env holds what is added to the launcher's environment; a value of None
    takes the variable away. preload: modules that are imported once, before the ranks are forked;
    "auto": those that the program will import, as far as that is sound. learn: with "auto", take
    those in, too, that the program was seen to import later, and see what it does. node: the
    group's place among those of other machines. placement: the ranks' CPUs, priority and memory.
    on_failure: called with each failure; see `start`.
    """

    program: Program
    nproc: int
    args: tuple[tuple[Any, ...], ...]
    kwargs: tuple[Mapping[str, Any], ...]
    env: tuple[Mapping[str, str | None], ...]
    cwd: str = "/"
    name: str = ""
    start_method: StartMethod = "forkserver"
    stdin: int | None = None
    logs: Logs = DEFAULT_LOGS
    stop: Stop = DEFAULT_STOP
    restart: Restart = NO_RESTART
    hang: Hang = DEFAULT_HANG
    common_args: bool = True
    preload: Literal["auto"] | tuple[str, ...] | None = "auto"
    learn: bool = True
    programs: tuple[Program, ...] = ()
    node: Node = ALONE
    on_failure: Callable[[GroupEnd], object] | None = None
    placement: Placement = NO_PLACEMENT

    def program_of(self, rank: int) -> Program:
        """Give what a rank runs."""
        return self.programs[rank] if self.programs else self.program

    def runs_python(self, rank: int) -> bool:
        """Whether our bootstrap runs a rank's program (and tells its outcome)."""
        return not isinstance(self.program_of(rank), Command)

    @property
    def is_python(self) -> bool:
        """Whether our bootstrap runs the program of any rank."""
        return any(self.runs_python(rank) for rank in range(len(self.programs) or 1))


def as_program(program: Any) -> Program:
    """Read what the user gave: a callable, a list of strings, or a program's name."""
    if isinstance(program, Script):
        try:
            return Script(os.fspath(program.path), tuple(map(os.fspath, program.args)))
        except TypeError:
            raise SpecError(
                f"{program!r}: its path and arguments must be strings or paths"
            ) from None
    if isinstance(program, (Command, Module, Function)):
        return program
    if isinstance(program, (str, os.PathLike)):
        return Command((os.fspath(cast("str | os.PathLike[str]", program)),))
    if isinstance(program, Sequence):
        words = list(cast("Sequence[Any]", program))
        if not words:
            raise SpecError("the command is empty: give a program and its arguments")
        for i, word in enumerate(words):
            if not isinstance(word, (str, os.PathLike)):
                raise SpecError(
                    f"the command's word {i} is {word!r}, of type {type(word).__name__}; "
                    "each must be a string or a path"
                )
        argv = tuple(os.fspath(cast("str", w)) for w in words)
        if any("\0" in word for word in argv[1:]):
            raise SpecError(f"the command {argv!r} holds a NUL character")
        return Command(argv)
    if callable(program):
        return Function(program)
    raise SpecError(
        f"cannot run {program!r}: give a function, a list such as ['python', 'train.py'], "
        "or the name of a program"
    )


def make_spec(
    program: Any,
    *,
    nproc: int,
    args: Any = (),
    kwargs: Any = None,
    env: Any = None,
    cwd: str | os.PathLike[str] | None = None,
    name: str | None = None,
    start_method: str = "forkserver",
    stdin: int | None = None,
    logs: Logs | None = None,
    stop: Stop | None = None,
    restart: Restart | None = None,
    hang: Hang | None = None,
    preload: Literal["auto"] | Sequence[str] | None = "auto",
    learn: bool = True,
    node: Node = ALONE,
    on_failure: Callable[[GroupEnd], object] | None = None,
    placement: Placement | None = None,
) -> Spec:
    """Check everything that can be checked before a process is started.

    program: what `as_program` reads, or a mapping from rank to commands, scripts and modules.
    Raises SpecError with one line that says what is wrong.
    """
    if not isinstance(nproc, int) or isinstance(nproc, bool) or nproc < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SpecError(f"nproc must be a count of 1 or more, not {nproc!r}")
    if nproc > MOST_RANKS:
        raise SpecError(f"nproc: {nproc} ranks on one machine; {MOST_RANKS} is the most")
    targets = _programs(program, nproc)
    target = targets[0]
    kinds: tuple[tuple[str, Any, Any, str], ...] = (
        ("name", name, str, "a string"),
        ("cwd", cwd, (str, os.PathLike), "a path"),
        ("logs", logs, Logs, "a Logs(...)"),
        ("stop", stop, Stop, "a Stop(...)"),
        ("restart", restart, Restart, "a Restart(...)"),
        ("hang", hang, Hang, "a Hang(...)"),
        ("placement", placement, Placement, "a Placement(...)"),
    )
    for what, value, kind, wanted in kinds:
        if value is not None and not isinstance(value, kind):
            raise SpecError(f"{what} must be {wanted}, not {value!r}")
    if name is not None and (not name or not name.isprintable()):
        raise SpecError(f"name must be a line of text, not {name!r}")
    logs, stop, restart = logs or DEFAULT_LOGS, stop or DEFAULT_STOP, restart or NO_RESTART
    hang = hang or DEFAULT_HANG
    if on_failure is not None and not callable(on_failure):
        raise SpecError(f"on_failure must be a callable, not {on_failure!r}")
    placement = placement or NO_PLACEMENT
    if start_method not in START_METHODS:
        raise SpecError(
            f"start_method must be one of {', '.join(START_METHODS)}, not {start_method!r}"
        )
    if stdin is not None and (isinstance(stdin, bool) or stdin not in range(nproc)):
        raise SpecError(f"stdin: there is no rank {stdin!r}; the ranks are 0 to {nproc - 1}")
    try:
        logs.check(nproc)
        stop.check()
        restart.check()
        hang.check()
        if hang.silence is not None:
            _check_seen(logs, nproc)
        if placement is not NO_PLACEMENT:
            placement.check(nproc)
        args_by_rank = [_arguments(a) for a in by_rank(args, nproc, "args")]
        kwargs_by_rank = [_keywords(k) for k in by_rank(kwargs or {}, nproc, "kwargs", {})]
        env_by_rank = [_environment(e) for e in by_rank(env or {}, nproc, "env", {})]
    except ValueError as e:
        raise SpecError(str(e)) from None
    where = _directory(cwd)
    _check_programs(targets, args_by_rank, kwargs_by_rank, env_by_rank, where)
    return Spec(
        program=target,
        nproc=nproc,
        args=tuple(args_by_rank),
        kwargs=tuple(kwargs_by_rank),
        env=tuple(env_by_rank),
        cwd=where,
        name=name or ":".join(dict.fromkeys(map(_default_name, targets))),
        start_method=start_method,
        stdin=stdin,
        logs=logs,
        stop=stop,
        restart=restart,
        hang=hang,
        preload=_preload(preload),
        learn=bool(learn),
        programs=() if all(t is target for t in targets) else tuple(targets),
        node=node,
        on_failure=on_failure,
        placement=placement,
        common_args=not is_by_rank(args) and not is_by_rank(kwargs),
    )


def _check_seen(logs: Logs, nproc: int) -> None:
    """Raise ValueError where output is not seen, so that nobody can tell that there is none."""
    routes = {route for pair in logs.route(nproc) for route in pair}
    if Route.INHERIT in routes or routes == {Route.DROP}:
        raise ValueError(
            "silence: output that goes straight to the console, or nowhere, is not seen; let it "
            "have a prefix (Logs(prefix=...), --prefix), or tee it to files (-t 3)"
        )


def _programs(program: Any, nproc: int) -> list[Program]:
    """Read what each rank runs."""
    if not is_by_rank(program):
        return [as_program(program)] * nproc
    try:
        targets = [as_program(each) for each in by_rank(program, nproc, "program")]
    except SpecError:
        raise
    except ValueError as e:
        raise SpecError(str(e)) from None
    if any(isinstance(t, Function) for t in targets):
        raise SpecError("program: functions cannot be given by rank; let one function call others")
    return [targets[0]] * nproc if all(t == targets[0] for t in targets) else targets


def _directory(cwd: Any) -> str:
    try:
        where = os.path.abspath(os.getcwd() if cwd is None else os.fspath(cast("str", cwd)))
    except FileNotFoundError:
        raise SpecError("the current directory does not exist any more: give cwd") from None
    if not os.path.isdir(where):
        raise SpecError(f"cwd: {where!r} is not a directory")
    return where


def _preload(value: Any) -> Literal["auto"] | tuple[str, ...] | None:
    if value is None or value == "auto":
        return value
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise SpecError(f'preload must be "auto", a list of module names, or None, not {value!r}')
    names = tuple(cast("Sequence[Any]", value))
    for name in names:
        if not isinstance(name, str) or not all(p.isidentifier() for p in name.split(".")):
            raise SpecError(f"preload: {name!r} is not the name of a module")
    return names


def _arguments(value: Any) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ValueError(
            f"args must be a tuple or a list, or a mapping from rank to one, not {value!r}"
        )
    return tuple(cast("Sequence[Any]", value))


def _keywords(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"kwargs must be a mapping, or a mapping by rank, not {value!r}")
    words = dict(cast("Mapping[Any, Any]", value))
    for key in words:
        if not isinstance(key, str):
            raise ValueError(f"kwargs: the name {key!r} is not a string")
    return words


def _environment(value: Any) -> dict[str, str | None]:
    if not isinstance(value, Mapping):
        raise ValueError(f"env must be a mapping, or a mapping by rank, not {value!r}")
    env = dict(cast("Mapping[Any, Any]", value))
    for key, text in env.items():
        if not isinstance(key, str) or not key or "=" in key or "\0" in key:
            raise ValueError(f"env: {key!r} is not the name of a variable")
        if text is not None and (not isinstance(text, str) or "\0" in text):
            raise ValueError(
                f"env: {key} is {text!r}, of type {type(text).__name__}; "
                "it must be a string without NUL (or None, to take it away)"
            )
    return env


def _check_programs(
    targets: list[Program],
    args: list[tuple[Any, ...]],
    kwargs: list[dict[str, Any]],
    env: list[dict[str, str | None]],
    cwd: str | None,
) -> None:
    if isinstance(targets[0], Function):
        return
    if any(kwargs):
        raise SpecError("kwargs are for functions; a command takes args only")
    for rank, words in enumerate(args):
        for word in words:
            if not isinstance(word, (str, os.PathLike)):
                raise SpecError(
                    f"args of rank {rank}: {word!r} is of type {type(word).__name__}; the "
                    "arguments of a command must be strings or paths"
                )
            if "\0" in os.fspath(cast("str", word)):
                raise SpecError(f"args of rank {rank}: {word!r} holds a NUL character")
    checked: set[tuple[str, str | None]] = set()  # thousands of ranks may run one program
    for rank, (target, variables) in enumerate(zip(targets, env, strict=True)):
        path = variables.get("PATH")
        if isinstance(target, Command) and (target.argv[0], path) not in checked:
            problem = program_problem(target.argv[0], cwd, path)
            if problem:
                raise SpecError(f"rank {rank}: {problem}")
            checked.add((target.argv[0], path))
        elif isinstance(target, Script) and (target.path, None) not in checked:
            if not os.path.exists(os.path.join(cwd or "", target.path)):
                raise SpecError(f"there is no script {target.path!r}")
            if not os.access(os.path.join(cwd or "", target.path), os.R_OK):
                raise SpecError(f"the script {target.path!r} cannot be read (permission denied)")
            checked.add((target.path, None))


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
        if not os.access(place, os.X_OK):
            return f"{word!r} is not executable; chmod +x it, or name its interpreter"
        return ""
    if not is_on_path(word, path):
        hint = ""
        if len(word.split()) > 1:
            hint = f"; for a command with arguments give a list: {word.split()!r}"
        return f"there is no program {word!r} on the PATH{hint}"
    return ""


def is_on_path(word: str, path: str | None = None) -> bool:
    """Tell whether a program of this name is found; path: the PATH, this process's if None."""
    path = os.environ.get("PATH", os.defpath) if path is None else path
    places = [os.path.join(directory, word) for directory in path.split(os.pathsep) if path]
    return any(os.access(place, os.X_OK) and not os.path.isdir(place) for place in places)


def words_of(target: Program) -> list[str]:
    """Give the words of a program's command line, or the name of a function."""
    if isinstance(target, Function):
        return [_default_name(target)]
    if isinstance(target, Command):
        return list(target.argv)
    return [target.path if isinstance(target, Script) else target.name, *target.args]


def _default_name(target: Program) -> str:
    if isinstance(target, Function):
        return str(getattr(target.call, "__name__", type(target.call).__name__))
    if isinstance(target, Command):
        return os.path.basename(target.argv[0])
    if isinstance(target, Script):
        return os.path.basename(target.path)
    return target.name
