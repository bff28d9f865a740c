"""What listed packages import when a program first uses a certain name of theirs.

`torch.optim` imports `torch._dynamo` when it is first used, and with it hundreds of modules. That
takes as long as torch itself, in each rank. So the list of safe modules has such names (`later` in
`safe`). If a program has one of them, its module is imported early, after the planned modules.

The words of the whole program are looked at: of the script, or the file of a function, and of each
local module that is imported anywhere in these. If they write a variable that the module reads at
its import, change the directory or set up all loggers, the module is left to the ranks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from procession.preload import safe
from procession.preload.find import ModuleKind, Search, with_packages
from procession.preload.source import Sources, Stopped, imported
from procession.values.environment import among

_REFUSED = frozenset[str](("chdir", "dictConfig", "fchdir", "fileConfig", "load_dotenv"))
_WRITES_MANY = frozenset(("clear", "update"))


def later(
    planned: Iterable[str],
    search: Search,
    files: Iterable[tuple[str, str]],
    modules: Iterable[str],
    own: str,
    sources: Sources,
) -> tuple[str, ...]:
    """Give the modules that the packages of `planned` will import when the program uses them.

    files: those with which the program begins, each with the package to which it belongs, "" for
    none. modules: what it imports besides what these import. own: the top-level package that is the
    program itself, wherever it lies. sources: what was parsed of it before. Never raises.
    """
    tops = sorted({name.partition(".")[0] for name in planned})
    names = {name: module for top in tops for name, module in safe.later(top).items()}
    wanted = [m for m in dict.fromkeys(names.values()) if _is_there(m, search)]
    if not wanted:
        return ()
    variables = safe.reads(wanted)
    words: set[str] = set()
    try:
        trees = _trees(list(files), list(modules), search, own, sources)
        for tree in trees:
            for node in ast.walk(tree):
                if _refuses(node, variables):
                    return ()
                words.update(_words_of(node))
    except (Stopped, RecursionError, MemoryError):
        return ()
    return tuple(m for m in wanted if any(names[n] == m for n in names.keys() & words))


def _is_there(module: str, search: Search) -> bool:
    return search.find(module).kind is ModuleKind.INSTALLED and not safe.why_not(module, search)


def _trees(
    files: list[tuple[str, str]], modules: list[str], search: Search, own: str, sources: Sources
) -> Iterator[ast.Module]:
    """Parse the files of a program, and the local modules that they import. Raises Stopped."""
    seen: set[str] = set()
    while files or modules:
        while modules:
            for name in with_packages(modules.pop()):
                found, top = search.find(name), name.partition(".")[0]
                is_own = top == own or (found.kind is ModuleKind.LOCAL and top != "procession")
                if is_own and found.has_source and name not in seen:
                    files.append((found.file, name if found.search else name.rpartition(".")[0]))
                seen.add(name)
        if files:
            path, package = files.pop()
            tree = sources.tree(path)
            yield tree
            for node in ast.walk(tree):
                bases = imported(node, package)
                modules += bases
                if isinstance(node, ast.ImportFrom):  # a name that it takes may be a submodule
                    modules += [f"{base}.{each.name}" for base in bases for each in node.names]


def _words_of(node: ast.AST) -> Sequence[str]:
    """Give the names that a node has in code, not those in its strings."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        return (node.attr,)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [alias.name for alias in node.names]
        return ".".join([*names, getattr(node, "module", None) or ""]).split(".")
    return ()


def _refuses(node: ast.AST, variables: Sequence[str]) -> bool:
    """Whether a node changes what an import sees, or may write one of these variables."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and among(variables, node.value)
    if isinstance(node, ast.keyword):
        return node.arg is not None and among(variables, node.arg)
    if isinstance(node, ast.Subscript):  # a constant is looked at by itself
        is_read = isinstance(node.ctx, ast.Load) or isinstance(node.slice, ast.Constant)
        return _is_environ(node.value) and not is_read
    if isinstance(node, ast.AugAssign):
        return _is_environ(node.target)
    if isinstance(node, ast.Attribute) and node.attr in _WRITES_MANY:
        return _is_environ(node.value)
    return not _REFUSED.isdisjoint(_words_of(node))


def _is_environ(node: ast.AST) -> bool:
    return "environ" in (getattr(node, "attr", ""), getattr(node, "id", ""))
