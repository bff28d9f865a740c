"""Changes the code of the pure parts, one place at a time, and tells which changes no test notices.

python -m chaos.mutants [FILE ...]: files below src/procession; all of `PARTS` if none is given.
MUTANTS_TRIALS=n: n of them, at random; MUTANTS_SEED: which. A change that no test notices is one
that makes no difference, of which `mutants.txt` says why, or a test is missing. A line there is

    FILE: what was changed: why no test can notice it

Each change is tried in a fork of a process that has pytest loaded, with that file's own tests.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import importlib.abc
import importlib.machinery
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from chaos.runner import ROOT, new_seed

SOURCE = ROOT / "src" / "procession"
REASONS = Path(__file__).with_name("mutants.txt")
# The tests of each, in the order in which they are likely to notice a change.
PARTS: dict[str, Sequence[str]] = {
    "rules/lifecycle.py": (
        "tests/lifecycle/test_rules.py",
        "tests/lifecycle/test_patience.py",
        "tests/lifecycle/test_hurry.py",
        "tests/lifecycle/test_random.py",
    ),
    "rules/restarting.py": ("tests/unit/test_restarting.py",),
    "output/lines.py": ("tests/output/test_lines.py",),
    "explain/stacks/merge.py": ("tests/stacks/test_stacks_merge.py",),
    "explain/report.py": ("tests/unit/test_report.py",),
    "values/ranks.py": ("tests/unit/test_ranks.py", "tests/unit/test_view_words.py"),
    "values/exit.py": ("tests/unit/test_exit.py",),
    "values/figures.py": ("tests/unit/test_figures.py", "tests/unit/test_view_words.py"),
}
LIMIT = 60.0  # seconds for the tests of one; more means that it hangs, and is noticed
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
RECKONED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Add, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A change. said: what was changed, in words that stay the same when lines move."""

    part: str
    said: str
    tree: ast.Module

    @property
    def key(self) -> str:
        """By which `mutants.txt` names it."""
        return f"{self.part}: {self.said}"


def mutants_of(part: str) -> list[Mutant]:
    """Give all changes of a file."""
    tree = ast.parse((SOURCE / part).read_text(encoding="utf-8"))
    nodes = [*_with_function(tree, "")]
    found: list[Mutant] = []
    for number, (_, where) in enumerate(nodes):
        choice = 0
        while True:
            changed = copy.deepcopy(tree)
            node, _ = [*_with_function(changed, "")][number]
            before = ast.unparse(node)
            what = _change(node, choice)
            if what is None:
                break
            choice += 1
            after = ast.unparse(node) if what == "" else what
            said = f"{where}: {_short(before)} -> {_short(after)}"
            same = sum(m.said.partition(" (again")[0] == said for m in found)
            said += f" (again, {same})" if same else ""
            found.append(Mutant(part, said, ast.fix_missing_locations(changed)))
    return found


def _short(code: str) -> str:
    return " ".join(code.split())[:90]


def _with_function(node: ast.AST, where: str) -> Iterator[tuple[ast.AST, str]]:
    """Give all nodes that may be changed, with the function that each is in."""
    for child in ast.iter_child_nodes(node):
        if _is_for_types(node, child):
            continue
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            inner = f"{where}.{child.name}".lstrip(".")
            for statement in child.body:
                if not _is_text(statement):
                    yield from _both(statement, inner)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)) and _is_text(child):
            continue
        elif not isinstance(child, (ast.Import, ast.ImportFrom, ast.AnnAssign)):
            yield from _both(child, where)


def _both(node: ast.AST, where: str) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        holder = ast.Module([node], [])
        yield from _with_function(holder, where)
        return
    yield node, where
    yield from _with_function(node, where)


def _is_for_types(node: ast.AST, child: ast.AST) -> bool:
    """Whether a part of a node is there for a type checker alone."""
    if isinstance(node, (ast.FunctionDef, ast.arg)):
        return child is getattr(node, "returns", None) or child is getattr(node, "annotation", None)
    if isinstance(node, ast.AnnAssign):
        return child is node.annotation
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("cast", "TypeVar") and child is node.args[0]
    if isinstance(child, ast.If):
        return isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"
    target = child.targets[0] if isinstance(child, ast.Assign) else None
    return isinstance(target, ast.Name) and target.id in ("TYPE_CHECKING", "T")


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _change(node: ast.AST, choice: int) -> str | None:
    """Change a node in its `choice`-th way; None if there is none, "" if it shows in its code."""
    if isinstance(node, ast.Compare) and choice < len(node.ops):
        new = COMPARED.get(type(node.ops[choice]))
        if new is not None:
            node.ops[choice] = new()
            return ""
    elif isinstance(node, ast.BoolOp) and choice == 0:
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return ""
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and choice == 0:
        operator = RECKONED.get(type(node.op))
        if operator is not None:
            node.op = operator()
            return ""
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)) and choice == 0:
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return "the condition is turned round"
    elif isinstance(node, ast.Constant) and choice == 0:
        return _constant(node)
    elif isinstance(node, ast.Return) and choice == 0 and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            node.value = ast.Constant(None)
            return ""
    elif isinstance(node, ast.Expr) and choice == 0 and isinstance(node.value, ast.Call):
        node.value = ast.Constant(None)
        return "left out"
    elif isinstance(node, (ast.Break, ast.Continue)) and choice == 0:
        node.__class__ = ast.Continue if isinstance(node, ast.Break) else ast.Break  # type: ignore[assignment]
        return ""
    return None


def _constant(node: ast.Constant) -> str | None:
    value = node.value
    if isinstance(value, bool):
        node.value = not value
    elif isinstance(value, (int, float)):
        node.value = value + 1
    elif isinstance(value, str) and value not in ("", "?"):
        node.value = "?"  # whole: tests look for a part of a message
    elif isinstance(value, bytes) and value:
        node.value = value + b"?"
    else:
        return None
    return ""


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives a changed module instead of the file's."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self._name, self._path, self._tree = name, path, tree

    def find_spec(
        self, fullname: str, path: object, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=str(self._path))

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self._path)
        exec(compile(self._tree, str(self._path), "exec"), module.__dict__)


def survives(mutant: Mutant) -> bool:
    """Run the tests of a part with a change, in a fork; tells whether none noticed it."""
    pid = os.fork()
    if not pid:
        os.setsid()
        code = 1
        try:
            code = _try(mutant)
        finally:
            os._exit(code)
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def _try(mutant: Mutant) -> int:
    import pytest

    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    name = "procession." + mutant.part.removesuffix(".py").replace("/", ".")
    for each in [n for n in sys.modules if n.partition(".")[0] in ("procession", "seams")]:
        del sys.modules[each]
    sys.meta_path.insert(0, _Finder(name, SOURCE / mutant.part, mutant.tree))
    words = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
    words.append("--assert=plain")  # else pytest loads our modules itself, from their files
    words += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*words, *PARTS[mutant.part]]))


def main() -> int:
    """Try the changes; gives 1 if some survive without a reason."""
    os.chdir(ROOT)
    for name in ("pytest", "hypothesis.stateful"):
        importlib.import_module(name)  # loaded once, and not in each fork
    known = {line.rpartition(": ")[0] for line in REASONS.read_text().splitlines() if line}
    parts = sys.argv[1:] or [*PARTS]
    seed = int(os.environ.get("MUTANTS_SEED") or new_seed())
    survivors = 0
    for part in parts:
        whole = ast.parse((SOURCE / part).read_text(encoding="utf-8"))
        if not survives(Mutant(part, "nothing", whole)):
            raise RuntimeError(f"the tests of {part} do not pass, without any change")
        if survives(Mutant(part, "all", ast.parse("raise RuntimeError"))):
            raise RuntimeError(f"the tests of {part} do not run its changed code")
        all_ = mutants_of(part)
        trials = min(len(all_), int(os.environ.get("MUTANTS_TRIALS", len(all_))))
        chosen = random.Random(seed).sample(all_, trials) if trials < len(all_) else all_
        left = [each for each in chosen if survives(each)]
        new = [each for each in left if each.key not in known]
        told = f"{len(left) - len(new)} with a reason, {len(new)} without"
        print(
            f"{part}: {trials} changes of {len(all_)}, {len(left)} not noticed: {told}", flush=True
        )
        for each in new:
            print(f"  {each.key}", flush=True)
        survivors += len(new)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
