"""Which modules a program will import, as far as that is sure before it runs.

Theory of operation. The program is read, never run. The imports at the beginning of the script are
taken in order, and, at its place, those at the beginning of each local module that it imports.
Between them may stand what runs none of the program's functions: definitions, assignments,
conditions, and `try`. A module that is not on the list is passed over: each rank
imports it. So is what is imported only under a condition. Reading stops at the first call, at a
write to anything but a plain name, and at a package that must be imported before others.

What a package that was passed over does to those that follow when it is imported is not known. That
is given up: it is rare, `safe` names those of which it is known, and without it nearly half of the
programs that import torch would have to import it in each rank.

What runs a program's own code without a call is not looked at either: a decorator that is only
named, a base class, a property, an operator.

The ranks of a function import the modules that the pickles of the function and its arguments name,
and those that the function's code names. These are read as a program is: a local module among them
imports others. What the launcher has loaded besides is of no use to the ranks.

Rejected: all that the launcher has loaded. A process that has torch would spend a second on it
before the first rank of a function that has nothing to do with torch.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType

from procession.preload import safe
from procession.preload.find import Found, ModuleKind, Search, with_packages
from procession.preload.later import later
from procession.preload.plan import AFTER, Plan, StoppedAt
from procession.preload.source import Sources, Stopped, imported

# What a module may say of itself; other names with two underscores steer how modules are imported.
_OF_ITSELF = (
    "__all__", "__author__", "__copyright__", "__date__", "__email__", "__license__", "__version__",
)  # fmt: skip
# Functions that change nothing, by the last part of their names.
_HARMLESS = (
    "ArgumentParser Counter NewType OrderedDict ParamSpec Path TypeVar abspath auto basename bool "
    "cache cached_property cast compile contextmanager dataclass defaultdict deque device dict "
    "dirname exists expanduser field float frozenset get getLogger getattr getcwd getenv "
    "get_logger hasattr inference_mode int is_available isdir isfile isinstance join len list "
    "lru_cache namedtuple no_grad object partial property range resolve round set "
    "singledispatch split str total_ordering tuple type version wraps zip"
)
_OF_IMPORTS = ("filters", "meta_path", "modules", "path_hooks", "root", "__dict__", "__globals__")
_ACTS = (ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Statements that only do what their expressions do.
_PLAIN = (ast.AnnAssign, ast.Assert, ast.Assign, ast.ClassDef, ast.Expr, ast.Pass, *_FUNCTIONS)
_OTHER = "it may change what an import sees"
_ANY = "*"  # among the names that a module has: there may be more


def plan_script(path: str, sys_path: Sequence[str]) -> Plan:
    """Tell what can be preloaded for `python PATH`.

    path: the script.
    sys_path: the `sys.path` that its ranks will have: the script's own directory first, unless the
        interpreter is isolated.

    Never raises: what cannot be read gives an empty plan with the reason.
    """
    reader = Reader(sys_path)
    reader.read(path, lambda: reader.file(path, "__main__", ""))
    return reader.result()


def plan_module(name: str, sys_path: Sequence[str]) -> Plan:
    """Tell what can be preloaded for `python -m NAME`; otherwise as `plan_script`.

    sys_path: the ranks' `sys.path`: the working directory first, unless the interpreter is
        isolated.
    """
    reader = Reader(sys_path)
    reader.read(f"-m {name}", lambda: reader.main_module(name))
    return reader.result()


def plan_function(
    named: Iterable[str],
    functions: Iterable[FunctionType],
    modules: Mapping[str, object],
    sys_path: Iterable[str],
) -> Plan:
    """Tell what can be preloaded for a function.

    named, functions: the modules that the pickles of it and its arguments name, and the functions
    that are in these. modules, sys_path: the launcher's `sys.modules` and `sys.path`.
    """
    reader = Reader(tuple(sys_path))
    # What "__main__" holds travels by value, as far as it is needed.
    names = {*named, *(name for f in functions for name in _names_in(f.__code__))} - {"__main__"}
    for name in [name for name in modules if name in names]:
        # The launcher has many of the standard library that no rank needs; its own are there.
        if reader.kind_of(name) in (ModuleKind.INSTALLED, ModuleKind.LOCAL):
            reader.follow(name)
    # By value, a function may come from anywhere; what "__main__" holds always does.
    files = [
        (f.__code__.co_filename, str(f.__globals__.get("__package__") or ""))
        for f in functions
        if reader.kind_of(str(f.__module__)) in (ModuleKind.LOCAL, ModuleKind.MISSING)
    ]
    return reader.result(dict.fromkeys(files), [n for n in named if n != "__main__"])


def _names_in(code: CodeType) -> Iterator[str]:
    """Give the names in code and in inner code, those of modules that it imports among them."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


class _File:
    """A file of the program. names: those that its statements have bound so far."""

    def __init__(self, name: str, package: str) -> None:
        self.is_main = name == "__main__"
        self.package = package  # where relative imports begin
        self.names: set[str] = set()
        self.own: set[str] = set()  # those behind whose harmless names may be anything

    def bind(self, name: str, *, sure: bool = True, known: bool | None = False) -> None:
        """Note that a statement binds a name; it may not be one that reading relies on.

        sure: whether it is known to be bound. known: whether it is imported by its own name from a
        module that is known; None: from one that is not.
        """
        if name.startswith("__") and name.endswith("__") and name not in _OF_ITSELF:
            raise Stopped(f"{name} steers how modules are imported")
        self.names.add(name if sure else f"{name}?")
        if known is None or (name in _HARMLESS.split() and not known):
            self.own.add(name)


class Reader:
    """Reads one program."""

    def __init__(self, sys_path: Sequence[str]) -> None:
        self._search = Search(sys_path)
        self._own = ""  # the top-level package that is the program itself, wherever it lies
        self._main: tuple[str, str] | None = None  # the program's file, and its package
        self._local: dict[str, _File] = {}  # local modules that were read, by name
        self._taken: dict[str, None] = {}
        self._skipped: dict[str, str] = {}
        self._sources = Sources()
        self._stopped_at: StoppedAt | None = None

    def read(self, what: str, read: Callable[[], None]) -> None:
        """Read a part of the program, which `what` names; keep where reading stopped."""
        try:
            read()
        except Stopped as e:
            self._stopped_at = e.at or StoppedAt(what, 0, str(e))
        except (RecursionError, MemoryError):
            self._stopped_at = StoppedAt(what, 0, "it is nested too deep")

    def follow(self, module: str) -> None:
        """Read as if the program imported a module next, wherever reading has stopped before."""
        self.read(module, lambda: self._import(module))

    def kind_of(self, module: str) -> ModuleKind:
        """Tell where the top-level package of a module comes from; this one is no program's."""
        top = module.partition(".")[0]
        return ModuleKind.STANDARD if top == "procession" else self._search.find(top).kind

    def result(self, files: Iterable[tuple[str, str]] = (), modules: Iterable[str] = ()) -> Plan:
        """Give the plan. files, modules: with which the program begins, if it is no file."""
        skipped = {n: r for n, r in self._skipped.items() if n not in self._taken}
        if self._main is not None:
            files, modules = [self._main], filter(None, [self._main[1]])
        found = later(self._taken, self._search, files, modules, self._own, self._sources)
        return Plan(tuple(self._taken), tuple(skipped.items()), self._stopped_at, found)

    def main_module(self, name: str) -> None:
        """Read a module that is run, after its packages."""
        parent = name.rpartition(".")[0]
        if safe.verdict(name).reason or self._search.find(name).kind is ModuleKind.LOCAL:
            self._own = name.partition(".")[0]
        if parent:
            self._import(parent)
        if self._search.find(name).search:
            self._import(name)
            parent, name = name, f"{name}.__main__"
        found = self._search.find(name)
        if not found.has_source:
            raise Stopped("its source is not found")
        self.file(found.file, "__main__", parent)

    def file(self, path: str, name: str, package: str, *, sure: bool = True) -> None:
        """Read the file of a module, to its end."""
        if name == "__main__":
            self._main = path, package
        tree = self._sources.tree(path)
        file = self._local[name] = _File(name, package)
        for i, node in enumerate(tree.body):
            try:
                self._statement(file, node, sure=sure)
            except Stopped as e:
                e.at = e.at or StoppedAt(path, node.lineno, str(e))
                where = f"{os.path.basename(e.at.file)}:{e.at.line}"
                for after in (name for each in tree.body[i:] for name in imported(each, package)):
                    is_missing = self._search.find(after).kind is ModuleKind.MISSING
                    reason = "it is not found" if is_missing else f"{AFTER} {where}"
                    self._skipped.setdefault(after, reason)
                raise

    def _statement(self, file: _File, node: ast.stmt, *, sure: bool = True) -> None:
        """Follow the imports of a statement. sure: it is run, and comes to its end."""
        is_definition = isinstance(node, (ast.ClassDef, *_FUNCTIONS))
        if file.own and not is_definition:
            called = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
            if any(_root(each) in file.own for each in called):
                raise Stopped(_OTHER)
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._import(alias.name, sure=sure)
                bound = alias.asname or alias.name.partition(".")[0]
                known = not alias.asname if self._knows(alias.name) else None
                file.bind(bound, sure=sure, known=known)
        elif isinstance(node, ast.ImportFrom):
            self._import_from(file, node, sure=sure)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            self._assign(file, node, sure=sure)
        elif isinstance(node, ast.If):
            self._if(file, node, sure=sure)
        elif isinstance(node, ast.Try):
            self._try(file, node, sure=sure)
        elif isinstance(node, ast.Raise) and not sure:
            pass  # nothing comes after it
        elif not _is_inert(node):
            raise Stopped(_OTHER)
        elif isinstance(node, (ast.ClassDef, *_FUNCTIONS)):
            file.bind(node.name, sure=sure)

    def _import(self, module: str, *, sure: bool = True) -> None:
        """Follow the import of a module and of its packages, as Python does."""
        for name in with_packages(module):
            found = self._search.find(name)
            top = name.partition(".")[0]
            own = top == self._own and found.kind is not ModuleKind.MISSING
            if own or (
                found.kind is ModuleKind.LOCAL and top != "procession"
            ):  # which may be a checkout
                self._import_local(name, found, sure=sure)
                continue
            is_missing = found.kind is ModuleKind.MISSING
            if not is_missing and top in safe.FIRST:
                raise Stopped(f"{name}: {safe.FIRST[top]}")
            reason = "it is not found" if is_missing else safe.why_not(name, self._search)
            if not reason and not sure:
                reason = "it is imported under a condition"
            if reason:
                self._skipped.setdefault(name, reason)
                return
            self._taken.setdefault(name)

    def _import_local(self, name: str, found: Found, *, sure: bool) -> None:
        if name in self._local:
            return
        package = name if found.search else name.rpartition(".")[0]
        if found.has_source:
            self.file(found.file, name, package, sure=sure)
        elif found.file:
            raise Stopped(f"{name}: it is local, and has no source to be read")
        else:
            self._local[name] = _File(name, package)  # a namespace package

    def _import_from(self, file: _File, node: ast.ImportFrom, *, sure: bool) -> None:
        bases = imported(node, file.package)
        if not bases:
            raise Stopped("it is imported relative to no package")
        base = bases[0]
        if base == "__future__":
            return
        self._import(base, sure=sure)
        is_package = bool(self._search.find(base).search)
        for alias in node.names:
            if alias.name in _OF_IMPORTS and base in ("sys", "warnings", "logging"):
                raise Stopped(_OTHER)  # by this name, what was imported is looked at
            if alias.name == "*":
                if is_package:
                    raise Stopped(f"a star import may import any submodule of {base}")
                file.bind(_ANY)
                continue
            if is_package:
                self._import_submodule(base, alias.name, sure=sure)
            known = alias.asname in (None, alias.name) if self._knows(base) else None
            file.bind(alias.asname or alias.name, sure=sure, known=known)

    def _knows(self, module: str) -> bool:
        """Tell whether a module is on the list: what its functions do is known by their names."""
        found = self._search.find(module)
        if found.kind in (ModuleKind.LOCAL, ModuleKind.MISSING):
            return False
        return not safe.why_not(module.partition(".")[0], self._search)

    def _import_submodule(self, package: str, name: str, *, sure: bool) -> None:
        """Follow `from PACKAGE import NAME` where it imports a submodule of this name."""
        whole = f"{package}.{name}"
        names = self._local[package].names if package in self._local else ()
        if self._search.find(whole).kind is ModuleKind.MISSING:
            return
        if _ANY in names or f"{name}?" in names:
            raise Stopped(f"{name} may be a submodule of {package}, or another name in it")
        if name not in names:
            self._import(whole, sure=sure)

    def _assign(
        self, file: _File, node: ast.Assign | ast.AnnAssign | ast.AugAssign, *, sure: bool
    ) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        targets_itself = getattr(targets[0], "id", "") in _OF_ITSELF  # another may be sys.path
        for target in (each for whole in targets for each in ast.walk(whole)):
            if isinstance(target, ast.Name):
                file.bind(target.id, sure=sure)
        is_augmented = isinstance(node, ast.AugAssign)
        if not _is_inert(node.value if is_augmented and targets_itself else node):
            raise Stopped(_OTHER)

    def _if(self, file: _File, node: ast.If, *, sure: bool) -> None:
        """Pass over what is never run: what is for the main program, in another module."""
        test = ast.unparse(node.test)
        is_main = test.replace('"', "'") in ("__name__ == '__main__'", "'__main__' == __name__")
        if is_main and file.is_main:
            raise Stopped("the program itself begins here")
        if not _is_inert(node.test):
            raise Stopped(_OTHER)
        for each in [*([] if is_main else node.body), *node.orelse]:
            self._statement(file, each, sure=sure and is_main)

    def _try(self, file: _File, node: ast.Try, *, sure: bool) -> None:
        """Follow the imports within `try`: they are sure up to the first that may fail."""
        begun = sure
        for each in node.body:
            known = len(self._skipped)
            self._statement(file, each, sure=begun)
            begun = begun and len(self._skipped) == known
        for clause in node.handlers:
            if not _is_inert(clause.type):
                raise Stopped(_OTHER)
            if clause.name:
                file.bind(clause.name, sure=False)
        branches = [*(clause.body for clause in node.handlers), node.orelse, node.finalbody]
        for each in (each for body in branches for each in body):
            self._statement(file, each, sure=False)


def _root(node: ast.expr) -> str:
    """Give the name with which what is called begins, "" if it begins otherwise."""
    while isinstance(node, (ast.Attribute, ast.Call)):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def _is_inert(node: ast.AST | None) -> bool:
    """Whether code calls only what is known to be harmless, and writes to plain names at most."""
    if isinstance(node, ast.Call):
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name not in _HARMLESS.split():
            return False
    if isinstance(node, (ast.Lambda, *_FUNCTIONS)):  # its body is not run
        around = () if isinstance(node, ast.Lambda) else (*node.decorator_list, node.returns)
        return all(map(_is_inert, (node.args, *around)))
    if isinstance(node, ast.comprehension):
        bound = {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
        if bound & {*_HARMLESS.split()}:
            return False  # what is called by this name is something else there
    if isinstance(node, ast.Attribute) and node.attr in _OF_IMPORTS:
        return False  # it may show what was imported
    if isinstance(node, ast.stmt) and not isinstance(node, _PLAIN):
        return False
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
        return False
    if node is None or isinstance(node, _ACTS):
        return node is None
    return all(map(_is_inert, ast.iter_child_nodes(node)))
