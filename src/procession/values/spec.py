"""What to run: the program of a group, its ranks' arguments and environment, and its policies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from procession.values.base import Value, cast, check_fields
from procession.values.environment import ALONE, Node
from procession.values.errors import GroupEnd, SpecError
from procession.values.placement import Placement
from procession.values.policy import Hang, Logs, Restart, Route, Stop
from procession.values.program import (
    Command,
    Program,
    check_programs,
    default_name,
    programs_by_rank,
)
from procession.values.ranks import by_rank, is_by_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from procession.values.shared import SharedCall

    StartMethod = Literal["forkserver", "spawn", "fork"]

MOST_RANKS = 32768  # the default of kernel.pid_max
WARM_SECONDS, MOST_SECONDS = 600.0, 1e9  # for which an agent is kept
START_METHODS: tuple[StartMethod, ...] = ("forkserver", "spawn", "fork")


class Spec(Value):
    """A group to be started; made and checked by `make_spec`.

    program: what rank 0 runs, and all others too, unless `programs` has one for each rank. args,
    kwargs and env are by rank. env holds what is added to the launcher's environment; a value of
    None removes the variable. preload: modules that are imported once, before the ranks are forked;
    "auto": those that the program will import, if that is safe. node: the group's
    place among those of other machines. placement: the ranks' CPUs and limits.
    on_failure: called with each failure; see `start`. shared: what the ranks load once. warm: for
    how many seconds the agent is kept for a later run, None: not at all. pass_fds: descriptors
    that ranks inherit.
    numbered: whether ${rank} and ${world_size} in arguments stand for a rank's numbers.
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
    logs: Logs = Logs()
    stop: Stop = Stop()
    restart: Restart = Restart()
    hang: Hang = Hang()
    common_args: bool = True
    numbered: bool = False
    preload: Literal["auto"] | tuple[str, ...] | None = "auto"
    programs: tuple[Program, ...] = ()
    node: Node = ALONE
    on_failure: Callable[[GroupEnd], object] | None = None
    placement: Placement = Placement()
    shared: Callable[[], Any] | SharedCall | None = None
    warm: float | None = None
    pass_fds: tuple[int, ...] = ()

    def filled(self, words: Iterable[str], rank: int) -> list[str]:
        """Fill in ${rank} and ${world_size}, where they stand for numbers in the whole job."""
        if not self.numbered:
            return list(words)
        number, size = self.node.first(self.nproc) + rank, self.node.size(self.nproc)
        return [
            w.replace("${rank}", str(number)).replace("${world_size}", str(size)) for w in words
        ]

    def program_of(self, rank: int) -> Program:
        """Give what a rank runs."""
        return self.programs[rank] if self.programs else self.program

    def runs_python(self, rank: int) -> bool:
        """Whether our bootstrap runs a rank's program (and reports its outcome)."""
        return not isinstance(self.program_of(rank), Command)

    @property
    def is_python(self) -> bool:
        """Whether our bootstrap runs the program of any rank."""
        return any(self.runs_python(rank) for rank in range(len(self.programs) or 1))


# What these must be if they are given: the type, and in words.
_KINDS: Mapping[str, tuple[Any, str]] = {
    "name": (str, "a string"),
    "cwd": ((str, os.PathLike), "a path"),
    "logs": (Logs, "a Logs(...)"),
    "stop": (Stop, "a Stop(...)"),
    "restart": (Restart, "a Restart(...)"),
    "hang": (Hang, "a Hang(...)"),
    "placement": (Placement, "a Placement(...)"),
    "on_failure": (Callable, "a callable"),
}


def make_spec(program: Any, *, nproc: int, **given: Any) -> Spec:
    """Check everything that can be checked before a process is started.

    program: what `as_program` reads, or a mapping from rank to commands, scripts and modules.
    given: fields of `Spec`; None stands for the default, but of preload. args, kwargs and env may
    be those of all ranks; shared and warm may be texts. Raises SpecError with one line that says
    what is wrong.
    """
    kept = {n: v for n, v in given.items() if v is not None or n == "preload"}
    try:
        return _checked(program, nproc, kept)
    except SpecError:
        raise
    except ValueError as e:
        raise SpecError(str(e)) from None


def _checked(program: Any, nproc: int, given: dict[str, Any]) -> Spec:
    if type(nproc) is not int or not 1 <= nproc <= MOST_RANKS:
        raise SpecError(f"nproc must be a count of ranks, 1 to {MOST_RANKS}, not {nproc!r}")
    targets = programs_by_rank(program, nproc)
    for what, (kind, wanted) in _KINDS.items():
        if what in given and not isinstance(given[what], kind):
            raise SpecError(f"{what} must be {wanted}, not {given[what]!r}")
    name, stdin = given.get("name"), given.get("stdin")
    if name is not None and (not name or not name.isprintable()):
        raise SpecError(f"name must be a line of text, not {name!r}")
    if stdin is not None and (isinstance(stdin, bool) or stdin not in range(nproc)):
        raise SpecError(f"stdin: there is no rank {stdin!r}; the ranks are 0 to {nproc - 1}")
    args, kwargs = given.get("args", ()), given.get("kwargs", {})
    spec = Spec(
        targets[0],
        nproc,
        **given
        | {
            "args": tuple(map(_arguments, by_rank(args, nproc, "args"))),
            "kwargs": tuple(map(_keywords, by_rank(kwargs, nproc, "kwargs", {}))),
            "env": tuple(map(_environment, by_rank(given.get("env", {}), nproc, "env", {}))),
            "cwd": _directory(given.get("cwd")),
            "name": name or ":".join(dict.fromkeys(map(default_name, targets))),
            "common_args": not is_by_rank(args) and not is_by_rank(kwargs),
            "preload": _preload(given.get("preload", "auto")),
            "programs": () if all(t is targets[0] for t in targets) else tuple(targets),
            "pass_fds": _descriptors(given.get("pass_fds", ())),
            "warm": read_warm(given.get("warm")),
        },
    )
    methods = START_METHODS.__contains__, f"one of {', '.join(START_METHODS)}"
    check_fields(spec, "", ("start_method", *methods))
    for policy in (spec.logs, spec.stop, spec.restart, spec.hang, spec.placement):
        policy.check(nproc)
    if spec.hang.silence is not None:
        spec = spec.__replace__(logs=audible(spec.logs))
        if not is_seen(spec.logs, nproc):
            raise SpecError(
                "silence: output that goes straight to the console, or nowhere, is not seen; let "
                "it have a prefix (Logs(prefix=...), --prefix), or tee it to files (-t 3)"
            )
    check_programs(targets, spec.args, spec.kwargs, spec.env, spec.cwd)
    if spec.shared is None:
        return spec
    from procession.values.shared import check_shared

    return spec.__replace__(shared=check_shared(spec.shared, targets, spec.start_method))


def audible(logs: Logs) -> Logs:
    """Give the logs in which one rank alone has a prefix as well, so that its silence is seen."""
    return logs.__replace__(prefix="[{rank}] ") if logs.prefix == "auto" else logs


def is_seen(logs: Logs, nproc: int) -> bool:
    """Tell whether the launcher sees what ranks write, so that it would notice their silence."""
    routes = {route for pair in logs.route(nproc) for route in pair}
    return Route.INHERIT not in routes and routes != {Route.DROP}


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


def _descriptors(value: Sequence[int]) -> tuple[int, ...]:
    for fd in value:
        if isinstance(fd, bool) or not isinstance(fd, int) or fd < 3:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SpecError(f"pass_fds must be numbers of descriptors, 3 or more, not {fd!r}")
        try:
            os.fstat(fd)
        except OSError:
            raise SpecError(
                f"pass_fds must be descriptors that are open in this process, not {fd}"
            ) from None
    return tuple(dict.fromkeys(value))


def read_warm(given: Any, where: str = "warm") -> float | None:
    """Read for how long an agent is kept: seconds, 1 for on, 0 for off, which is None.

    given: a value or a text. Raises SpecError.
    """
    word = given.strip().lower() if isinstance(given, str) else given
    if word in (None, False, "", "0", "false", "no", "off"):
        return None
    if word in (True, "1", "true", "yes", "on"):
        return WARM_SECONDS
    try:
        seconds = float(word)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < MOST_SECONDS:
        limits = f"more than 0 and less than {MOST_SECONDS:g}"
        raise SpecError(f"{where} must be seconds, {limits}, or on or off, not {given!r}")
    return seconds
