"""Which modules a program will import, as far as that is sure before it runs.

Theory of operation. The program is read, never run. The imports at the beginning of the script are
taken in order, and, at its place, those at the beginning of each local module that it imports.
Among them may stand only what runs nothing: docstrings, assignments of literals, what is meant for
type checkers, and imports within `try`; the last are not taken, since they may fail. Reading stops
at the first other statement, be it a definition, and at the first import of a module that is
neither local nor on the list. Up to there the program can neither change what the taken imports
see, nor see that they were made before.

Rejected: to judge definitions, calls and expressions as well, and to read on after those that are
harmless. That took three times the code, and of 757 scripts of public repositories it found another
large package in 4, torch in none: imports stand at the top, and most local modules run something
that cannot be judged.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Sequence

from procession.preload import safe
from procession.preload.find import Found, Kind, Search, with_packages
from procession.preload.later import later
from procession.preload.plan import Plan, StoppedAt, nothing
from procession.preload.source import Unreadable, parse

LONGEST = 200  # characters of a line that is shown

# What a module may say of itself; other names with two underscores steer how modules are imported.
_OF_ITSELF = (
    "__all__", "__author__", "__copyright__", "__date__", "__email__", "__license__", "__version__",
)  # fmt: skip
_LITERAL = (
    ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp,
    ast.unaryop, ast.operator, ast.expr_context,
)  # fmt: skip
_OTHER = "it is not an import"
_ANY = "*"  # among the names that a module has: there may be more


def plan_script(path: str, sys_path: Sequence[str]) -> Plan:
    """Tell what can be preloaded for `python PATH`.

    path: the script.
    sys_path: the `sys.path` that its ranks will have: the script's own directory first, unless the
        interpreter is isolated.

    Never raises: what cannot be read gives an empty plan with the reason.
    """
    reader = _Reader(sys_path)
    return reader.plan(path, lambda: reader.file(path, "__main__", ""))


def plan_module(name: str, sys_path: Sequence[str]) -> Plan:
    """Tell what can be preloaded for `python -m NAME`; otherwise as `plan_script`.

    sys_path: the ranks' `sys.path`: the working directory first, unless the interpreter is
        isolated.
    """
    reader = _Reader(sys_path)
    return reader.plan(f"-m {name}", lambda: reader.main_module(name))


class _Stopped(Exception):
    """Reading ends. at: where; None until the statement is known."""

    def __init__(self, reason: str, at: StoppedAt | None = None) -> None:
        super().__init__(reason)
        self.at = at


class _File:
    """A file of the program. names: those that its statements have bound so far."""

    def __init__(self, path: str, name: str, package: str) -> None:
        self.path = path
        self.is_main = name == "__main__"
        self.package = package  # where relative imports begin
        self.names: set[str] = set()

    def bind(self, name: str, *, sure: bool = True, false: bool = False) -> None:
        """Note that a statement binds a name; it may not be one that reading relies on.

        sure, false: whether it is known to be bound, and to `False`.
        """
        if name.startswith("__") and name.endswith("__") and name not in _OF_ITSELF:
            raise _Stopped(f"{name} steers how modules are imported")
        if name == "TYPE_CHECKING" and not false:
            raise _Stopped("TYPE_CHECKING may be true")
        self.names.add(name if sure else _ANY)


class _Reader:
    """Reads one program."""

    def __init__(self, sys_path: Sequence[str]) -> None:
        self._search = Search(sys_path)
        self._own = ""  # the top-level package that is the program itself, wherever it lies
        self._main: tuple[str, str] | None = None  # the program's file, and its package
        self._local: dict[str, _File] = {}  # local modules that were read, by name
        self._taken: dict[str, None] = {}
        self._skipped: dict[str, str] = {}

    def plan(self, what: str, read: Callable[[], None]) -> Plan:
        """Read a program and give the plan. what: names the program."""
        hidden = safe.hidden(self._search)
        if hidden is not None:
            return nothing(*hidden)
        stopped_at = None
        try:
            read()
        except _Stopped as e:
            stopped_at = e.at or StoppedAt(what, 0, "", str(e))
        except (RecursionError, MemoryError):
            stopped_at = StoppedAt(what, 0, "", "it is nested too deep")
        skipped = {n: r for n, r in self._skipped.items() if n not in self._taken}
        foreseen: tuple[str, ...] = ()
        if self._main is not None:
            package = self._main[1]
            above = [package] if package else []
            foreseen = later(self._taken, self._search, [self._main], above, self._own)
        return Plan(tuple(self._taken), tuple(skipped.items()), stopped_at, foreseen)

    def main_module(self, name: str) -> None:
        """Read a module that is run, after its packages."""
        parent = name.rpartition(".")[0]
        if not safe.verdict(name).safe or self._search.find(name).kind is Kind.LOCAL:
            self._own = name.partition(".")[0]
        if parent:
            self._import(parent)
        if self._search.find(name).search:
            self._import(name)
            parent, name = name, f"{name}.__main__"
        found = self._search.find(name)
        if not found.has_source:
            raise _Stopped("its source is not found")
        self.file(found.file, "__main__", parent)

    def file(self, path: str, name: str, package: str) -> None:
        """Read the file of a module, to its end."""
        if name == "__main__":
            self._main = path, package
        lines, tree = _parse(path)
        file = self._local[name] = _File(path, name, package)
        for i, node in enumerate(tree.body):
            try:
                self._statement(file, node)
            except _Stopped as e:
                line = lines[node.lineno - 1] if node.lineno <= len(lines) else b""
                text = line.decode("utf-8", "replace").strip()[:LONGEST]
                e.at = e.at or StoppedAt(path, node.lineno, text, str(e))
                where = f"{os.path.basename(e.at.file)}:{e.at.line}"
                for later in (name for each in tree.body[i:] for name in _imports(each)):
                    self._skipped.setdefault(later, f"it comes after {where}")
                raise

    def _statement(self, file: _File, node: ast.stmt, *, sure: bool = True) -> None:
        """Follow the imports of a statement. sure: it is run, and comes to its end."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._import(alias.name, sure=sure)
                file.bind(alias.asname or alias.name.partition(".")[0], sure=sure)
        elif isinstance(node, ast.ImportFrom):
            self._import_from(file, node, sure=sure)
        elif isinstance(node, ast.Assign) and _consists_of(node.value, _LITERAL):
            self._assign(file, node, sure=sure)
        elif isinstance(node, ast.If):
            self._if(file, node, sure=sure)
        elif isinstance(node, ast.Try):
            for clause in node.handlers:
                if not _consists_of(clause.type, (ast.Name, ast.Tuple, ast.Load)):
                    raise _Stopped(_OTHER)
                if clause.name:
                    file.bind(clause.name, sure=False)
            branches = [*(clause.body for clause in node.handlers), node.orelse, node.finalbody]
            for each in (each for body in (node.body, *branches) for each in body):
                self._statement(file, each, sure=False)
        elif not isinstance(node, ast.Pass) and not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            raise _Stopped(_OTHER)

    def _import(self, module: str, *, sure: bool = True) -> None:
        """Follow the import of a module and of its packages, as Python does."""
        for name in with_packages(module):
            found = self._search.find(name)
            top = name.partition(".")[0]
            own = top == self._own and found.kind is not Kind.MISSING
            if own or (found.kind is Kind.LOCAL and top != "procession"):  # which may be a checkout
                self._import_local(name, found, sure=sure)
                continue
            reason = self._why_not(name, found, sure=sure)
            if reason:
                self._skipped.setdefault(name, reason)
                raise _Stopped(f"{name}: {reason}")
            if sure:
                self._taken.setdefault(name)
            else:
                self._skipped.setdefault(name, "it is imported under a condition")

    def _why_not(self, name: str, found: Found, *, sure: bool) -> str:
        """Give why an import ends the reading, "" if it does not."""
        its = safe.verdict(name)
        if found.kind is Kind.MISSING:
            # Within `try` it is passed over: what is not there changes nothing.
            return "" if its.safe and not sure else "it is not found"
        if its.sets and not sure and name.partition(".")[0] not in self._taken:
            return f"it sets {min(its.sets)}, which later imports could see"
        return safe.why_not(name, self._search)

    def _import_local(self, name: str, found: Found, *, sure: bool) -> None:
        if name in self._local:
            return
        if not sure:
            raise _Stopped(f"{name}: it is local, and is imported under a condition")
        package = name if found.search else name.rpartition(".")[0]
        if found.has_source:
            self.file(found.file, name, package)
        elif found.file:
            raise _Stopped(f"{name}: it is local, and has no source to be read")
        else:
            self._local[name] = _File("", name, package)  # a namespace package

    def _import_from(self, file: _File, node: ast.ImportFrom, *, sure: bool) -> None:
        base = node.module or ""
        if node.level:
            parts = file.package.split(".") if file.package else []
            if node.level > len(parts):
                raise _Stopped("it is imported relative to no package")
            base = ".".join((*parts[: len(parts) - node.level + 1], *filter(None, [base])))
        if base == "__future__":
            return
        self._import(base, sure=sure)
        is_package = bool(self._search.find(base).search)
        for alias in node.names:
            if alias.name == "*":
                if is_package:
                    raise _Stopped(f"a star import may import any submodule of {base}")
                file.bind(_ANY)
                continue
            if is_package:
                self._import_submodule(base, alias.name, sure=sure)
            false = base in ("typing", "typing_extensions") and alias.name == "TYPE_CHECKING"
            file.bind(alias.asname or alias.name, sure=sure, false=false)

    def _import_submodule(self, package: str, name: str, *, sure: bool) -> None:
        """Follow `from PACKAGE import NAME` where it imports a submodule of this name."""
        whole = f"{package}.{name}"
        names = self._local[package].names if package in self._local else ()
        if self._search.find(whole).kind is Kind.MISSING:
            return
        if _ANY in names:
            raise _Stopped(f"{name} may be a submodule of {package}, or another name in it")
        if name not in names:
            self._import(whole, sure=sure)

    def _assign(self, file: _File, node: ast.Assign, *, sure: bool) -> None:
        for target in node.targets:
            if not _consists_of(target, (ast.Name, ast.Tuple, ast.List, ast.Store)):
                raise _Stopped(_OTHER)
            false = isinstance(node.value, ast.Constant) and node.value.value is False
            for each in ast.walk(target):
                if isinstance(each, ast.Name):
                    file.bind(each.id, sure=sure, false=false)

    def _if(self, file: _File, node: ast.If, *, sure: bool) -> None:
        """Pass over what is never run: what is for type checkers, or for the main program."""
        test = ast.unparse(node.test)
        for_main = not file.is_main and test == "__name__ == '__main__'"
        if not for_main and test not in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            raise _Stopped(_OTHER)
        for each in node.orelse:
            self._statement(file, each, sure=sure)


def _consists_of(node: ast.expr | None, kinds: tuple[type[ast.AST], ...]) -> bool:
    return node is None or all(isinstance(each, kinds) for each in ast.walk(node))


def _imports(node: ast.stmt) -> list[str]:
    """Give what an import statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        return [node.module]
    return []


def _parse(path: str) -> tuple[list[bytes], ast.Module]:
    """Read the lines of a file, and its tree."""
    try:
        text, tree = parse(path)
    except Unreadable as e:
        raise _Stopped(str(e), StoppedAt(path, 0, "", str(e))) from None
    return text.split(b"\n"), tree
