"""The programs of a command line, and their ranks: one, or several with a colon between them.

What PROGRAM is, is decided by its word; nothing of it is imported or started.

A colon separates programs only if -n or -x, or their long names, follow it: other colons are
arguments of the program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations

from procession.cli.readers import is_number
from procession.cli.settings import Settings
from procession.cli.words import Parser
from procession.values.base import Value
from procession.values.errors import SpecError
from procession.values.program import (
    Command,
    Module,
    Program,
    Script,
    hides_nothing,
    is_on_path,
    may_run,
    program_problem,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BEGINS_A_PART = ("-n", "-x", "--nproc-per-node", "--env")
SCRIPT_ENDINGS = (".py", ".pyw", ".pyc", ".pyz")
MACRO = "local_rank"
KINDS = ("run_path", "module", "no_python")  # options that say what PROGRAM is
OF_RANKS = frozenset(
    ["RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
     "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"]
)  # fmt: skip

# The words of torchrun for accelerators: what we call them, and what chooses among them.
ACCELERATORS = {
    "gpu": (("NVIDIA", "AMD"), ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                "ROCR_VISIBLE_DEVICES")),
    "xpu": (("Intel",), ("ZE_AFFINITY_MASK",)),
    "npu": (("Ascend",), ("ASCEND_RT_VISIBLE_DEVICES",)),
}  # fmt: skip


class Part(Value):
    """A program and its ranks.

    words: its name and its arguments. kind: what it is said to be, one of `KINDS`, or "script" for
    torchrun; "" where its name decides. torchrun: its arguments are read as torchrun reads them.
    """

    nproc: int
    words: tuple[str, ...]
    env: dict[str, str | None]
    kind: str
    torchrun: bool

    def given_to(self, rank: int) -> tuple[Program, tuple[str, ...]]:
        """Give what a rank runs, and apart from that its arguments. Raises SpecError.

        Arguments of Python programs are read as by torchrun: `$$` is a dollar, and a `--` before
        the first one is left out. For commands, only ${local_rank} is replaced, since a shell has
        other uses for `$$`.
        """
        word, *words = self.words
        word = word if self.kind == "no_python" else _substituted(word, rank)
        program = choose_program(word, self.kind)
        if isinstance(program, Command) and not self.torchrun:
            return program, tuple(word.replace(f"${{{MACRO}}}", str(rank)) for word in words)
        args = tuple(_substituted(word, rank) for word in words[words[:1] == ["--"] :])
        interpreter = os.environ.get("PYTHON_EXEC")  # torchrun's
        if interpreter and self.kind != "run_path":
            if isinstance(program, Module):
                program = Command((interpreter, "-u", "-m", program.name))
            elif isinstance(program, Script):
                program = Command((interpreter, "-u", program.path))
        return program, args


def read_parts(
    parser: Parser, s: Settings, rest: list[str], *, torchrun: bool = False
) -> list[Part]:
    """Read the programs and their own options. rest: words from PROGRAM on. Raises SpecError."""
    pieces = [rest] if torchrun else _split(rest)
    found = [_part(s, pieces[0], torchrun=torchrun)]
    for words in pieces[1:]:
        given, program = parser.read(words)
        for option in map(parser.options.__getitem__, given):
            if not option.target.startswith("program."):
                why = "is for all programs: write it before the first one"
                raise SpecError(f"{option.written} {why}")
        found.append(_part(Settings(parser.options, given), program))
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


def _part(s: Settings, words: list[str], *, torchrun: bool = False) -> Part:
    text, where = s.text("nproc_per_node"), s.where("nproc_per_node")
    nproc = count_ranks(text, where)
    if not words:
        raise SpecError(
            "PROGRAM is missing; type procession run -n 4 train.py (or it was "
            "taken for the value of the option before it)"
        )
    for one, other in combinations(KINDS, 2):
        s.not_together(one, other)
    kind = next(filter(s.flag, KINDS), "script" if torchrun else "")
    return Part(nproc, tuple(words), _variables(s), kind, torchrun)


def _variables(s: Settings) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for word in s.list("env"):
        name, equals, value = word.partition("=")
        if name in OF_RANKS or name.startswith("PROCESSION_"):
            raise SpecError(
                f"{s.where('env')}: {name} is what each rank is told by its launcher; "
                "write another name"
            )
        if not name or name != name.strip() or (not equals and name not in os.environ):
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
    given: dict[int, tuple[Program, tuple[str, ...]]] = {}
    env: dict[int, dict[str, str | None]] = {}
    for part in parts:
        varies = any("$" in word for word in part.words)
        first = len(given)
        one, own = part.given_to(local + first), {**common, **part.env}
        for rank in range(first, first + part.nproc):
            given[rank] = part.given_to(local + rank) if varies else one
            env[rank] = own
    if len(parts) == 1 and all(each == given[0] for each in given.values()):
        program, args = given[0]
        if isinstance(program, Command):
            return {"program": Command((*program.argv, *args)), "env": env[0]}
        return {"program": program.__replace__(args=args), "env": env[0]}
    programs = {rank: program for rank, (program, _) in given.items()}
    return {"program": programs, "args": {n: args for n, (_, args) in given.items()}, "env": env}


# -- how many ranks


def count_ranks(text: str, where: str) -> int:
    """Read a count of ranks, or a word such as `gpu`: as many as this machine has.

    where: what to call it in a refusal. Raises SpecError.
    """
    if is_number(text) and int(text):
        return int(text)
    if text == "cpu":
        return len(os.sched_getaffinity(0))
    if text == "auto":
        found = [count for word in ACCELERATORS if (count := _count(word, where))]
        return found[0] if found else len(os.sched_getaffinity(0))
    if text in ACCELERATORS:
        count = _count(text, where)
        if not count:
            kinds = " and no ".join(ACCELERATORS[text][0])
            raise SpecError(f"{where} {text}: this machine shows no {kinds} device to this process")
        return count
    words = ", ".join(("auto", "cpu", *ACCELERATORS))
    hint = "; for -np write -n" if text == "p" else ""  # -np 4 is -n with the value p
    raise SpecError(f"{where} must be a count of 1 or more, or {words}, not {text!r}{hint}")


def _count(word: str, where: str) -> int:
    from procession.devices.seat import read_devices
    from procession.system import accelerators

    kinds, variables = ACCELERATORS[word]
    there = max((a.count for a in accelerators.find() if a.kind in kinds), default=0)
    for name in variables:
        if there and name in os.environ:
            try:
                return len(read_devices(name, os.environ[name]))
            except SpecError as e:
                if "hides all" in str(e):
                    return 0
                raise SpecError(f"{where} {word}: {e}") from None
    return there


# -- what PROGRAM is


def choose_program(word: str, kind: str) -> Program:
    """Decide what PROGRAM is. Raises SpecError for what cannot be run; one that is said to be
    a script may be missing.

    A path that exists is a script if it ends in .py, or is not executable, or is a directory or an
    archive with a `__main__.py`; everything else is a program. Another directory does not hide a
    program of its name on the PATH.
    """
    if kind in ("run_path", "script"):
        return Script(word)
    if kind == "module":
        if word.endswith(".py") and os.path.isfile(word):
            raise SpecError(f"-m is for modules; to run the file {word}, leave out -m")
        if not is_module(word):
            raise SpecError(f"there is no module {word!r} on the path")
        return Module(word)
    if not kind and not hides_nothing(word):
        if os.path.isdir(word):
            if not os.path.exists(os.path.join(word, "__main__.py")):
                raise SpecError(f"{word!r} is a directory without a __main__.py")
            return Script(word)
        if word.endswith(".ipynb") and not may_run(word):
            raise SpecError(f"{word!r} is a notebook: jupyter nbconvert --to script makes a script")
        ends = word.endswith(SCRIPT_ENDINGS)
        if not ends and _is_foreign(word):
            raise SpecError(f"{word!r} is not executable; chmod +x it, or name its interpreter")
        if os.path.exists(word) and (ends or not may_run(word)):
            return Script(word)
        if ends:
            raise SpecError(f"there is no script {word!r}")
    if word and "/" not in word and not is_on_path(word):
        what = "program" if kind else "script or program"
        raise SpecError(f"there is no {what} {word!r} on the PATH{_nearby(word)}")
    problem = program_problem(word)
    if problem:
        raise SpecError(problem)
    return Command((word,))


def _is_foreign(path: str) -> bool:
    """Whether a file that is not executable names an interpreter other than Python."""
    if not os.path.isfile(path) or may_run(path):
        return False
    try:
        with open(path, "rb") as f:
            first = f.readline(200)
    except OSError:
        return False  # opening it to run it will say why
    return first.startswith(b"#!") and b"python" not in first


def _nearby(word: str) -> str:
    """Name the file that was probably meant by the name of a program."""
    if os.path.isfile(word) and may_run(word):
        return f"; for the one in this directory, write ./{word}"
    if os.path.isfile(f"{word}.py"):
        return f"; did you mean {word}.py?"
    if word.isdecimal():
        return f"; is it the value of an option? Write --warm={word}, in one word"
    return "; write a program and its arguments as words of their own" if " " in word else ""


def is_module(name: str) -> bool:
    """Tell whether there is the module, or the package that it is in; nothing is imported."""
    from importlib.machinery import PathFinder

    top = name.partition(".")[0]
    isolated = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
    path = sys.path if isolated else ["", *sys.path]
    finders = [(f, path if f is PathFinder else None) for f in sys.meta_path]
    return bool(top) and any(finder.find_spec(top, where) for finder, where in finders)
