"""The kinds of `PContext`: ranks that run a function, or a program."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

from procession.adoption import hooks
from procession.elastic.context import PContext
from procession.elastic.logs import LogsSpecs
from procession.elastic.plan import STOP
from procession.group.group import Group
from procession.group.making import begin_group
from procession.values.program import Module, Script, program_problem
from procession.values.spec import make_spec
from procession.worker import ending


class MultiprocessContext(PContext):
    """Ranks that run a function. None exits before all have returned, as with torch's.

    start_method: "spawn" (a fresh interpreter for each), "forkserver" (forks of a small fresh one)
    or "fork" (forks of this process). The others are those of `PContext`.
    """

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any],
        args: Mapping[int, Any],
        envs: Mapping[int, Mapping[str, Any]],
        start_method: str,
        logs_specs: LogsSpecs,
        log_line_prefixes: Mapping[int, str] | None = None,
        numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        from multiprocessing import get_context  # which programs do not need

        get_context(start_method)  # raises ValueError if there is no such method
        self.start_method = start_method
        more = numa_options, duplicate_stdout_filters, duplicate_stderr_filters
        super().__init__(name, entrypoint, args, envs, logs_specs, log_line_prefixes, *more)

    def _begin_group(self, envs: list[dict[str, str | None]]) -> Group:
        # Imports `multiprocessing`, which programs do not need.
        from procession.api.processes import begin_processes, processes_for

        function = cast("Callable[..., Any]", self.entrypoint)
        processes = processes_for(function, self.nprocs, self.start_method)
        return begin_processes(
            ending.call_together,
            function,
            [tuple(self.args[rank]) for rank in range(self.nprocs)],
            processes,
            env=dict(enumerate(envs)),
            name=self.name or None,
            start_method=self.start_method,
            stop=STOP,
            placement=self._placement,
            output=self._output,
        )


class SubprocessContext(PContext):
    """Ranks that run a program; parameters are those of `PContext`.

    Where this process has adopted procession, `python -u script.py` becomes ranks that are forked
    from one interpreter, which has made the script's imports.
    """

    def _begin_group(self, envs: list[dict[str, str | None]]) -> Group:
        program: str | Script | Module = str(self.entrypoint)
        words = [[*map(str, self.args[rank])] for rank in range(self.nprocs)]
        if hooks.ELASTIC in hooks.replaced:
            program, words = as_python_program(program, words)
        if isinstance(program, str):
            for env in envs:
                problem = program_problem(program, None, env.get("PATH"))
                if problem:
                    code = errno.EACCES if os.path.exists(program) else errno.ENOENT
                    raise OSError(code, problem, program)
        spec = make_spec(
            program,
            nproc=self.nprocs,
            args=dict(enumerate(words)),
            env=dict(enumerate(envs)),
            stdin=0,
            name=self.name or None,
            stop=STOP,
            placement=self._placement,
        )
        return begin_group(spec, self._output)


def as_python_program(
    entrypoint: str, words: list[list[str]]
) -> tuple[str | Script | Module, list[list[str]]]:
    """Read `python -u PATH ...` and `python -u -m NAME ...` as what they run, and its arguments.

    words: by rank. Another command, one whose program differs by rank, and one whose interpreter
    would differ from ours stay as they are.
    """
    first = "".join(sys.orig_argv[1:2])
    has_flags = first.startswith("-") and first not in ("-u", "-m", "-c")
    if entrypoint != sys.executable or has_flags:
        return entrypoint, words
    match words[0]:
        case ["-u", "-m", name, *_]:
            program, count = Module(name), 3
        case ["-u", path, *_] if os.path.isfile(path):
            program, count = Script(path), 2
        case _:
            return entrypoint, words
    if any(each[:count] != words[0][:count] for each in words):
        return entrypoint, words
    return program, [each[count:] for each in words]
