"""What a command line runs: one program, or several with a lone colon between them.

A colon stands between two programs only where -n or -x, or their long names, come behind it:
programs may have a colon among their arguments, and under torchrun they do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from procession.cli.parser import Parser
from procession.cli.program import choose_program
from procession.cli.settings import Settings
from procession.errors import SpecError
from procession.spec import Command, Module, Program, Script
from procession.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OF_A_PART = ("nproc_per_node", "env", "module", "no_python", "run_path")
BEGINS_A_PART = ("-n", "-x", "--nproc-per-node", "--env")
MACRO = "local_rank"


class Part(Value):
    """A program and its ranks. words: its name and its arguments. only_python: as for torchrun."""

    nproc: int
    words: tuple[str, ...]
    env: dict[str, str | None]
    module: bool
    no_python: bool
    run_path: bool
    only_python: bool

    def program(self, rank: int) -> Program:
        """Give what a rank runs, its arguments left out. Raises SpecError."""
        word = self.words[0]
        if self.run_path:
            if not os.path.exists(_substituted(word, rank)):
                raise SpecError(f"there is no script {_substituted(word, rank)!r}")
            return Script(_substituted(word, rank))
        if self.no_python:
            return choose_program(word, [], module=False, no_python=True)
        word = _substituted(word, rank)
        if self.only_python and not self.module:
            if not os.path.exists(word):
                raise SpecError(f"there is no script {word!r}")
            program: Program = Script(word)
        else:
            program = choose_program(word, [], module=self.module, no_python=False)
        interpreter = os.environ.get("PYTHON_EXEC")  # torchrun's
        if not interpreter or isinstance(program, Command):
            return program
        if isinstance(program, Module):
            return Command((interpreter, "-u", "-m", word))
        return Command((interpreter, "-u", word))

    def arguments(self, rank: int) -> tuple[str, ...]:
        """Give the arguments of a rank."""
        return tuple(_substituted(word, rank) for word in self.words[1:])


def read_parts(
    parser: Parser, s: Settings, rest: list[str], *, torchrun: bool = False
) -> list[Part]:
    """Read what is to be run by the words behind the first options. Raises SpecError."""
    pieces = [rest] if torchrun else _split(rest)
    found = [_part(s, pieces[0], only_python=torchrun)]
    for words in pieces[1:]:
        given, program = parser.read(words)
        own = Settings(parser.options)
        for name, value in vars(given).items():
            if name not in OF_A_PART:
                option = "/".join(parser.options[name].option_strings)
                raise SpecError(f"{option} is for all programs: write it before the first one")
            own.add(name, value)
        found.append(_part(own, program))
    return found


def _split(rest: list[str]) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for word, following in zip(rest, [*rest[1:], ""], strict=False):
        if word == ":" and _begins_part(following):
            pieces.append([])
        else:
            pieces[-1].append(word)
    return pieces


def _begins_part(word: str) -> bool:
    name = word.partition("=")[0]
    if name.startswith("--"):
        return name.replace("_", "-") in BEGINS_A_PART
    return name[:2] in BEGINS_A_PART


def _part(s: Settings, words: list[str], *, only_python: bool = False) -> Part:
    nproc = _count(s.text("nproc_per_node"), s.where("nproc_per_node"))
    if not words:
        raise SpecError("PROGRAM is missing: say what to run, as in: procession run -n 4 train.py")
    if s.flag("module") and s.flag("no_python") and not s.flag("run_path"):
        raise SpecError(f"{s.where('module')} and {s.where('no_python')} cannot go together")
    return Part(
        nproc=nproc,
        words=tuple(words),
        env=_variables(s),
        module=s.flag("module"),
        no_python=s.flag("no_python"),
        run_path=s.flag("run_path"),
        only_python=only_python,
    )


def _count(text: str, where: str) -> int:
    if is_number(text) and int(text):
        return int(text)
    from procession.cli.counts import count_ranks

    return count_ranks(text, where)


def is_number(text: str) -> bool:
    """Tell whether a text is a number as one counts with."""
    return text.isascii() and text.isdecimal() and len(text) <= 6


def _variables(s: Settings) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for word in s.list("env"):
        name, equals, value = word.partition("=")
        if not name or (not equals and name not in os.environ):
            raise SpecError(
                f"{s.where('env')} must be NAME=VALUE, or the NAME of a variable that is set, "
                f"not {word!r}"
            )
        found[name] = value if equals else os.environ[name]
    return found


def _substituted(word: str, rank: int) -> str:
    """Fill in ${local_rank}, as torchrun does: $$ is a dollar, other names stay as they are."""
    if "$" not in word:
        return word
    from string import Template

    return Template(word).safe_substitute({MACRO: str(rank)})


def by_rank(parts: Sequence[Part], common: Mapping[str, str], local: int = 0) -> dict[str, Any]:
    """Give programs, arguments and environments as `make_spec` takes them. Raises SpecError.

    common: variables of all ranks, for which parts may have values of their own. local: which of
    this machine's ranks the first one is.
    """
    programs: dict[int, Program] = {}
    args: dict[int, tuple[str, ...]] = {}
    env: dict[int, dict[str, str | None]] = {}
    for part in parts:
        varies = "$" in part.words[0]
        program, own = part.program(local + len(programs)), {**common, **part.env}
        for rank in range(len(programs), len(programs) + part.nproc):
            programs[rank] = part.program(local + rank) if varies else program
            args[rank] = part.arguments(local + rank)
            env[rank] = own
    same = all(words == args[0] for words in args.values())
    if len({id(p) for p in programs.values()}) == 1 and same:
        program = programs[0]
        whole: Program
        if isinstance(program, Command):
            whole = Command((*program.argv, *args[0]))
        elif isinstance(program, Script):
            whole = Script(program.path, args[0])
        else:
            assert isinstance(program, Module)
            whole = Module(program.name, args[0])
        return {"program": whole, "env": env[0]}
    return {"program": programs, "args": args, "env": env}


__all__ = ["Part", "by_rank", "is_number", "read_parts"]
