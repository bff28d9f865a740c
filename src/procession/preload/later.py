"""What listed packages will import later, when the program first uses a certain name of theirs.

Theory of operation. `torch.optim`, when it is first used, imports `torch._dynamo` and hundreds of
modules more: as long as torch itself takes, and in each rank. After one run that is known
(`learned`), but not in the first one. So the list of safe modules names, for such packages, what
they import later, and the names that lead to it (`later` in `safe`). Where the program has such a
name, the module is imported early, after those that were planned.

That is sound if nothing that the program does before could change what the import sees, or what it
does. That is not known of the program's beginning alone, so all of its source is read here: the
script, and each local module that is imported anywhere in it, also in functions. It must have
nothing but itself, the standard library and listed packages, since others could do anything when
they are imported. And nowhere may it have a word by which a program changes what imports see: the
environment (it may read single variables), `sys.path`, the directory, how loggers and warnings are
set up, an attribute of a module or class that it imports, or run code that is not read here
(`exec`, `pickle`, `ctypes`). If it has, or if something
cannot be read, nothing is foreseen, and the next run knows. Of a function, the whole file is read
that it is in.

The words are looked for in the tree, not in the text: `optim` in a comment is not used, and
`model.eval()` runs no code. Words that matter as names are refused in strings, too, as in
`getattr(os, "environ")`.

Rejected: to read up to the place where the name is used. Which functions have been called by then
cannot be told. To allow writes of variables that no listed module is known to read: what was
learned of a program is dropped for any such write, too. To allow packages that are not on the list,
as long as their source has none of the words: that is thousands of files.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import sys
import time
from collections.abc import Collection, Iterable

from procession.preload import safe
from procession.preload.find import Kind, Search, with_packages
from procession.preload.source import Unreadable, parse

LARGEST_PROGRAM = 256 << 10  # bytes of all its files: reading them takes 0.2 s
MOST_FILES = 256  # that are known still
DOUBT_NS = 2_000_000_000  # a file that is younger may change without a trace

_ENVIRONMENT = frozenset(("environb", "putenv", "reload_environ", "setenv", "unsetenv"))
# What an import sees beside variables: the directory, who runs it, limits, temporary files.
_PROCESS = (
    "chdir chroot fchdir setegid seteuid setgid setregid setresgid setresuid setreuid setrlimit "
    "setuid tempdir umask"
)
# torch's defaults; loggers and warnings that an early import would have as well, or too soon.
_SET_UP = (
    "_logging dictConfig fileConfig loggerDict resetwarnings set_default_device set_default_dtype "
    "set_default_tensor_type set_logs setLoggerClass setLogRecordFactory"
)
# Code that is not read, or sees all that is run, and how modules are found.
_CODE = (
    "CDLL PackageImporter UnsafeLoader Unpickler __builtins__ __import__ __loader__ __path__ "
    "__closure__ __globals__ _getframe allow_pickle builtins ctypeslib currentframe f_builtins "
    "f_globals f_locals getmodule hub import_module importlib load_library setprofile settrace "
    "unsafe_load weights_only"
)
_REFUSED = _ENVIRONMENT.union(_PROCESS.split(), _SET_UP.split(), _CODE.split())
_MODULES = (
    "bdb cProfile code codeop ctypes doctest imp marshal pdb pickle pkgutil profile pydoc runpy "
    "shelve site timeit trace unittest zipimport torch.distributed.launch "
    "torch.distributed.launcher torch.distributed.run"
)
_REFUSED_MODULES = frozenset(_MODULES.split())
_RUN_CODE = frozenset(("compile", "eval", "exec"))  # as functions; not `model.eval`
# Names that may be there, depending on what is done with them.
_BY_USE = frozenset(("environ", "filterwarnings", "os", "simplefilter", "sys"))
_HARMLESS = (
    "argv byteorder exc_info executable exit flags float_info getsizeof hexversion implementation "
    "maxsize platform stderr stdin stdout version version_info"
)
_OF_SYS = frozenset(_HARMLESS.split())
# What a program sets there is set after their import, early or not.
_SETTINGS = ("torch.backends.", "torch._dynamo.", "torch._inductor.")
_WORD = re.compile(r"\w+")


def later(
    planned: Iterable[str],
    search: Search,
    files: Iterable[tuple[str, str]],
    modules: Iterable[str] = (),
    own: str = "",
) -> tuple[str, ...]:
    """Give the modules that packages will import when the program uses them, as far as it is sure.

    planned: what is imported early anyway; only its packages count. files: those that the program
    begins with, each with the package that it belongs to, "" for none. modules: what it imports
    besides what these import. own: the top-level package that is the program itself, wherever it
    lies. Never raises.
    """
    tops = {name.partition(".")[0] for name in planned}
    names = {name: module for top in sorted(tops) for name, module in safe.later(top).items()}
    wanted = [m for m in dict.fromkeys(names.values()) if _is_there(m, search)]
    if not wanted:
        return ()
    program = _Program(own, search, {n for m in wanted for n in safe.verdict(m).sets})
    try:
        for module in modules:
            program.imports(module)
        for file, package in files:
            program.file(file, package)
        program.rest()
    except (_Unsure, Unreadable, RecursionError, MemoryError):
        return ()
    return tuple(m for m in wanted if any(names[n] == m for n in names.keys() & program.words))


def _is_there(module: str, search: Search) -> bool:
    found = search.find(module)
    return found.kind is Kind.INSTALLED and not safe.why_not(module, search)


class _Unsure(Exception):
    """The program has something that could change what an import sees."""


class _Program:
    """All of a program's source. words: the names that it has, in code.

    sets: variables that the imports in question set; it may not name them.
    """

    def __init__(self, own: str, search: Search, sets: Collection[str]) -> None:
        self.words: set[str] = set()
        self._own, self._search, self._sets = own, search, frozenset(sets)
        self._size = 0
        self._seen: set[str] = set()  # modules
        self._waiting: list[tuple[str, str]] = []  # files and their packages

    def rest(self) -> None:
        """Read the local modules that are imported by what was read."""
        while self._waiting:
            self.file(*self._waiting.pop())

    def imports(self, module: str) -> None:
        """Note that a module is imported, and its packages."""
        for name in with_packages(module):
            if name in self._seen:
                continue
            self._seen.add(name)
            found = self._search.find(name)
            top = name.partition(".")[0]
            if name in _REFUSED_MODULES:
                raise _Unsure
            if top != "procession" and (top == self._own or found.kind is Kind.LOCAL):
                if found.has_source:
                    self._waiting.append((found.file, name if found.search else _parent(name)))
                elif found.file:
                    raise _Unsure
            elif found.kind is Kind.MISSING:
                if name == top:
                    raise _Unsure  # a finder of its own may find it
                # Otherwise it is no module, but something in its package.
            elif safe.why_not(name, self._search):
                raise _Unsure

    def file(self, path: str, package: str) -> None:
        """Read a file. package: where its relative imports begin."""
        source = _read(path, package, self._sets)
        self._size += source.size
        if self._size > LARGEST_PROGRAM:
            raise _Unsure
        self.words |= source.words
        for module in source.imports:
            self.imports(module)


def _read(path: str, package: str, sets: frozenset[str]) -> _Source:
    """Read a file, or know it still: one process may launch the same program many times.

    Raises _Unsure, Unreadable.
    """
    try:
        stat = os.stat(path)
    except (OSError, ValueError) as e:
        raise Unreadable(str(e)) from None
    if time.time_ns() - stat.st_mtime_ns < DOUBT_NS:
        return _Source(path, package, sets)
    stamp = stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
    source = _read_once(path, package, sets, stamp)
    if source is None:
        raise _Unsure
    return source


@functools.lru_cache(maxsize=MOST_FILES)
def _read_once(path: str, package: str, sets: frozenset[str], _: object) -> _Source | None:
    try:
        return _Source(path, package, sets)
    except (_Unsure, Unreadable, RecursionError, MemoryError):
        return None


class _Source:
    """One file. words: the names that it has, in code. imports: modules. size: in bytes.

    Raises _Unsure, Unreadable.
    """

    def __init__(self, path: str, package: str, sets: frozenset[str]) -> None:
        text, tree = parse(path)
        self.size = len(text)
        self.words: set[str] = set()
        self.imports: dict[str, None] = {}
        self._sets = sets
        harmless: set[ast.AST] = set()  # uses of `os.environ`, `os`, `sys` and filters
        self._bound: dict[str, str] = {}  # names, and what was imported by them
        self._set: list[list[str]] = []  # names with dots that are assigned to
        for node in ast.walk(tree):  # parents before children
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node, package)
            else:
                harmless.update(_harmless(node))
                self._judge(node, node in harmless)
                self._set += _assigned(node)
        if any(map(self._is_patch, self._set)):
            raise _Unsure

    def _is_patch(self, names: list[str]) -> bool:
        """Whether something is assigned to what the program has not defined itself."""
        last = names[-1]
        if last.startswith("__") and last.endswith("__"):
            return True
        full = ".".join((self._bound.get(names[0], ""), *names[1:]))
        top = full.partition(".")[0]
        known = top in sys.stdlib_module_names or top in safe.packages()
        return known and not full.startswith(_SETTINGS)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name in ("os", "sys") and alias.asname:
                raise _Unsure
            self.imports[alias.name] = None
            self._have(alias.name)
            top = alias.name.partition(".")[0]
            self._bound[alias.asname or top] = alias.name if alias.asname else top

    def _import_from(self, node: ast.ImportFrom, package: str) -> None:
        base = node.module or ""
        if node.level:
            parts = package.split(".") if package else []
            if node.level > len(parts):
                raise _Unsure
            base = ".".join((*parts[: len(parts) - node.level + 1], *filter(None, [base])))
        if base == "__future__":
            return
        self.imports[base] = None
        self._have(base)
        for alias in node.names:
            if alias.asname and alias.name in _BY_USE:
                raise _Unsure
            if base in ("os", "sys") and alias.name == "*":
                raise _Unsure
            if base == "sys" and alias.name not in _OF_SYS:
                raise _Unsure
            self._have(alias.name)
            if not node.level:
                self._bound[alias.asname or alias.name] = f"{base}.{alias.name}"
            # It may be a module; what is none is as its package is.
            if alias.name != "*":
                self.imports[f"{base}.{alias.name}"] = None

    def _have(self, name: str) -> None:
        """Note a name, which may have dots."""
        words = set(name.split("."))
        if words & _REFUSED:
            raise _Unsure
        self.words |= words

    def _judge(self, node: ast.AST, harmless: bool) -> None:
        """Note the names in a node, and refuse it if it may change what an import sees."""
        if isinstance(node, ast.Name):
            self._have(node.id)
            if node.id in _RUN_CODE:
                raise _Unsure
            if node.id in _BY_USE and not harmless:
                raise _Unsure
        elif isinstance(node, ast.Attribute):
            self._have(node.attr)
            if node.attr in _BY_USE and not harmless:
                raise _Unsure
        elif isinstance(node, ast.keyword) and node.arg:
            is_true = isinstance(node.value, ast.Constant) and node.value.value is True
            if not (node.arg == "weights_only" and is_true):  # which loads no code
                self._have(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = set(_WORD.findall(node.value))
            if "environ" in words or words & _ENVIRONMENT or words & self._sets:
                raise _Unsure


def _parent(module: str) -> str:
    return module.rpartition(".")[0]


def _harmless(node: ast.AST) -> list[ast.AST]:
    """Give the children of a node with which it does nothing bad, whatever they name."""
    if isinstance(node, ast.Attribute):
        of = _name(node.value)
        if of == "os" or (of == "sys" and node.attr in _OF_SYS and isinstance(node.ctx, ast.Load)):
            return [node.value]
    elif isinstance(node, ast.Subscript):
        if _name(node.value) == "environ" and isinstance(node.ctx, ast.Load):
            return [node.value]
    elif isinstance(node, ast.Compare):
        if _name(node.comparators[0]) == "environ" and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return [node.comparators[0]]
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            return [node.func.value] if _name(node.func.value) == "environ" else []
        first = node.args[0] if node.args else None
        if _name(node.func) in ("filterwarnings", "simplefilter"):
            # What is silenced would not have been seen.
            silences = isinstance(first, ast.Constant) and first.value == "ignore"
            return [node.func] if silences else []
    return []


def _assigned(node: ast.AST) -> list[list[str]]:
    """Give the dotted name that a node assigns to or deletes, in parts; none for a plain name."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return [_parts(node)]
    if isinstance(node, ast.Call) and _name(node.func) in ("setattr", "delattr") and node.args:
        return [[*_parts(node.args[0]), "?"]]
    return []


def _parts(node: ast.AST) -> list[str]:
    """Give the parts of a dotted name; the first one is "" if that is another expression."""
    if isinstance(node, ast.Attribute):
        return [*_parts(node.value), node.attr]
    return [node.id if isinstance(node, ast.Name) else ""]


def _name(node: ast.AST) -> str:
    """Give the last part of a dotted name, "" for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""
