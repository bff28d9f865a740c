"""What the names of a program stand for, as far as it has been read."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable

from procession.preload import known

# What a name stands for, beside the full names of what was imported and `@name` for a local module.
LITERAL = "=literal"
CLASS = "=class"
PROPERTY = "=property"
FALSE = "=false"
PATH = "pathlib.Path()"
UNKNOWN = ""

_BUILTIN = frozenset(dir(builtins))


class Scope:
    """The names of a module or class body, as far as it has been read.

    seen: kinds of what the program has looked at, shared by all scopes: "environ".
    lookup: gives what a name of a local module stands for.
    outer: the module's scope, of a class body or comprehension.
    is_class: its names are seen in the class body itself, not in what is nested in it.
    names: what they stand for.
    open: names may have come by a star import, so that nothing is sure of others.
    late_annotations: annotations are not evaluated.
    """

    def __init__(
        self,
        seen: set[str],
        lookup: Callable[[str, str], str],
        outer: Scope | None = None,
        *,
        is_class: bool = False,
    ) -> None:
        self.names: dict[str, str] = {}
        self.open = False
        self.seen = seen
        self.lookup = lookup
        self.outer = outer
        self.is_class = is_class
        self.late_annotations = outer is not None and outer.late_annotations

    def inner(self, *, is_class: bool = False) -> Scope:
        """Give a scope for what is nested in this one."""
        outer = self.outer if self.is_class else self
        return Scope(self.seen, self.lookup, outer, is_class=is_class)

    def stands_for(self, name: str) -> str | None:
        """Give what a name stands for, None if it is bound nowhere."""
        if name in self.names:
            return self.names[name]
        if self.open:
            return UNKNOWN
        if self.outer is not None:
            return self.outer.stands_for(name)
        return f"builtins.{name}" if name in _BUILTIN else None


def full_name(node: ast.expr, scope: Scope) -> str:
    """Give the full name of what an expression looks up, UNKNOWN where that is not sure."""
    if isinstance(node, ast.Name):
        return scope.stands_for(node.id) or UNKNOWN
    if isinstance(node, ast.Call):
        return PATH if full_name(node.func, scope) in known.PATHS else UNKNOWN
    if isinstance(node, ast.Attribute):
        base = full_name(node.value, scope)
        if base == PATH and node.attr == "parent":
            return PATH
        if base.startswith("@"):
            return scope.lookup(base[1:], node.attr)
        if base and not base.startswith("="):
            return _plain(f"{base}.{node.attr}")
    return UNKNOWN


def _plain(name: str) -> str:
    return "typing." + name[18:] if name.startswith("typing_extensions.") else name
