"""The kinds of `PContext`: ranks that run a function, a program, or a Python program."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from procession.elastic.context import PContext
from procession.elastic.logs import LogsSpecs
from procession.elastic.plan import begin_program
from procession.elastic.subprocess_handler import SubprocessHandler, handlers_of
from procession.group.group import Group
from procession.values.program import Module, Script
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

    def _begin(self, envs: list[dict[str, str | None]]) -> Group:
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
            name=self.name,
            start_method=self.start_method,
            stop=self.stop,
            placement=self._placement,
            output=self._output,
        )


class SubprocessContext(PContext):
    """Ranks that run a program; parameters are those of `PContext`.

    subprocess_handlers: by local rank; the `proc` of each looks like a `subprocess.Popen`.
    """

    subprocess_handlers: Mapping[int, SubprocessHandler] = MappingProxyType({})

    def _begin(self, envs: list[dict[str, str | None]]) -> Group:
        program = str(self.entrypoint)
        words = {rank: tuple(map(str, self.args[rank])) for rank in range(self.nprocs)}
        options = {"name": self.name, "stop": self.stop, "placement": self._placement}
        group = begin_program(program, words, envs, self._output, **options)
        commands = [(program, *words[rank]) for rank in range(self.nprocs)]
        self.subprocess_handlers = handlers_of(group, commands)
        return group


class PythonContext(PContext):
    """Ranks that run a Python program, forked from one interpreter that has made its imports.

    program: what they run, without buffers, as under `python -u`. title: its name in reports. The
    others are those of `PContext`.
    """

    def __init__(
        self, program: Script | Module, title: str, *, envs: Mapping[int, Any], **more: Any
    ) -> None:
        self._program = program
        self._title = title
        unbuffered = {rank: {**env, "PYTHONUNBUFFERED": "1"} for rank, env in envs.items()}
        super().__init__(entrypoint=sys.executable, envs=unbuffered, **more)

    def _begin(self, envs: list[dict[str, str | None]]) -> Group:
        options = {"name": self._title, "stop": self.stop, "placement": self._placement}
        return begin_program(self._program, self.args, envs, self._output, **options)


def python_program(entrypoint: str, args: Sequence[Any]) -> tuple[Script | Module, int] | None:
    """Give what `python -u PATH ...` or `python -u -m NAME ...` runs, and how many words that are.

    None if this is no such command, or if an interpreter started by it would differ from ours.
    """
    first = "".join(sys.orig_argv[1:2])
    has_flags = first.startswith("-") and first not in ("-u", "-m", "-c")
    if entrypoint != sys.executable or has_flags or not all(isinstance(arg, str) for arg in args):
        return None
    match args:
        case ["-u", "-m", name, *_]:
            return Module(name), 3
        case ["-u", path, *_] if os.path.isfile(path):
            return Script(path), 2
        case _:
            return None
