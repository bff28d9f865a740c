"""Ranks that run a Python script or module, where torch would start interpreters for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from procession.elastic.ranks import GroupContext
from procession.group.group import Group
from procession.group.making import begin
from procession.values.program import Module, Script
from procession.values.spec import make_spec


def python_program(
    entrypoint: str, args: Sequence[Any]
) -> tuple[Script | Module, Sequence[str]] | None:
    """Give what `python -u PATH ...` or `python -u -m NAME ...` runs, and the arguments for it.

    None if this is no such command, or if an interpreter started by it would differ from ours.
    """
    if entrypoint != sys.executable or _has_flags(sys.orig_argv):
        return None
    if not all(isinstance(arg, str) for arg in args) or list(args[:1]) != ["-u"]:
        return None
    if list(args[1:2]) == ["-m"]:
        return (Module(args[2]), args[3:]) if len(args) > 2 else None
    if len(args) > 1 and os.path.isfile(args[1]):
        return Script(args[1]), args[2:]
    return None


def _has_flags(command: Sequence[str]) -> bool:
    """Tell whether an interpreter was started with options that its programs can tell."""
    return any(word.startswith("-") and word not in ("-u", "-m", "-c") for word in command[1:2])


class PythonContext(GroupContext):
    """Ranks that run a Python program, forked from one interpreter that has made its imports.

    program: what they run, without buffers, as under `python -u`. title: its name in reports. The
    others are those of `GroupContext`.
    """

    def __init__(
        self, program: Script | Module, title: str, *, envs: Mapping[int, Any], **more: Any
    ) -> None:
        self._program = program
        self._title = title
        unbuffered = {rank: {**env, "PYTHONUNBUFFERED": "1"} for rank, env in envs.items()}
        super().__init__(entrypoint=sys.executable, envs=unbuffered, **more)

    def _begin(self, envs: list[dict[str, str | None]]) -> Group:
        spec = make_spec(
            self._program,
            nproc=self.nprocs,
            args=self.args,
            env=dict(enumerate(envs)),
            name=self._title,
            stdin=0,
            stop=self.stop,
            placement=self._placement,
        )
        return begin(spec, self._output)

    def _what(self) -> str:
        return f"program: {self._title}"
