"""Whether a piece of a program can change what a later import sees, or see what was imported.

Theory of operation. A statement passes only if everything in it is known: names, literals, look-ups
and operators, definitions, and calls of what stands in `known`. A program that passes has made no
instance of a class of its own, so that no method of its own is called by a look-up, an operator or
a call; what could still be called (`known.CALLED_FOR_CLASSES`) it may not define. Whatever is not
recognised here does not pass.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from procession.preload import known
from procession.preload.scope import CLASS, FALSE, LITERAL, PROPERTY, UNKNOWN, Scope, full_name

_ENVIRON = ("os.environ", "os.getenv", "os.environb")
_LOOKED_AT = frozenset(
    ("__name__", "__file__", "__doc__", "__version__", "__all__", "__qualname__")
)


def statement(node: ast.stmt, scope: Scope, *, within_class: bool = False) -> str:
    """Give the reason for which a statement does not pass, "" if it does; notes what it binds.

    Imports and compound statements are the caller's.
    """
    if isinstance(node, ast.Pass) or (isinstance(node, ast.Global) and not within_class):
        return ""
    if isinstance(node, ast.Expr):
        return expression(node.value, scope)
    if isinstance(node, ast.Assign):
        return expression(node.value, scope) or _all(
            _bind(target, _kind(node.value, scope), scope, within_class) for target in node.targets
        )
    if isinstance(node, ast.AnnAssign):
        return (
            ("" if scope.late_annotations else expression(node.annotation, scope))
            or (expression(node.value, scope) if node.value else "")
            or (_bind(node.target, _kind(node.value, scope), scope, within_class))
        )
    if isinstance(node, ast.AugAssign):
        if isinstance(node.target, ast.Name) and scope.names.get(node.target.id) == LITERAL:
            return expression(node.value, scope)
        return "it may change an object that others see"
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return _function(node, scope, within_class)
    if isinstance(node, ast.ClassDef):
        return _class(node, scope, within_class)
    if isinstance(node, ast.Assert):
        return expression(node.test, scope)
    if isinstance(node, ast.Delete):
        return _all(
            _bind(t, UNKNOWN, scope, within_class)
            if isinstance(t, ast.Name)
            else "it may change an object that others see"
            for t in node.targets
        )
    if type(node).__name__ == "TypeAlias":  # since Python 3.12; evaluated when it is looked at
        target: ast.expr = getattr(node, "name")  # noqa: B009
        return _bind(target, UNKNOWN, scope, within_class)
    return "it may run anything"


def bound(name: str, *, within_class: bool = False) -> str:
    """Give the reason for which a name may not be bound in a module or class, "" if it may."""
    if not (name.startswith("__") and name.endswith("__")):
        return ""
    if within_class:
        return f"{name} is called for classes" if name in known.CALLED_FOR_CLASSES else ""
    return "" if name in known.OWN_NAMES else f"{name} steers how modules are looked up"


def _bind(target: ast.expr, kind: str, scope: Scope, within_class: bool) -> str:
    if isinstance(target, ast.Name):
        reason = bound(target.id, within_class=within_class)
        scope.names[target.id] = kind
        return reason
    if isinstance(target, (ast.Tuple, ast.List)):
        return _all(_bind(t, UNKNOWN, scope, within_class) for t in target.elts)
    if isinstance(target, ast.Starred):
        return _bind(target.value, UNKNOWN, scope, within_class)
    return "it may change an object that others see"


def _kind(value: ast.expr | None, scope: Scope) -> str:
    if isinstance(value, ast.Constant):
        return FALSE if value.value is False else LITERAL
    if isinstance(value, (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr)):
        return LITERAL
    if isinstance(value, (ast.Name, ast.Attribute)):
        # A second name of a list is no reason to change it.
        name = full_name(value, scope)
        return UNKNOWN if name == LITERAL else name
    return UNKNOWN


def expression(node: ast.expr, scope: Scope) -> str:
    """Give the reason for which an expression does not pass, "" if it does."""
    if isinstance(node, ast.Constant):
        return ""
    if isinstance(node, ast.Name):
        return seen(full_name(node, scope), "", scope)
    if isinstance(node, ast.Attribute):
        name = full_name(node, scope)
        return expression(node.value, scope) or seen(name, node.attr, scope)
    if isinstance(node, ast.Call):
        return _call(node, scope)
    if isinstance(node, ast.Lambda):
        return _arguments(node.args, scope, annotations=False)
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return _comprehension([node.elt], node.generators, scope)
    if isinstance(node, ast.DictComp):
        return _comprehension([node.key, node.value], node.generators, scope)
    if isinstance(node, _PARTS_ONLY):
        return _all(
            expression(child, scope)
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.expr)
        )
    if isinstance(node, ast.NamedExpr):
        return "it assigns within an expression"
    return "it may run anything"


_PARTS_ONLY = (
    ast.BinOp, ast.BoolOp, ast.Compare, ast.Dict, ast.FormattedValue, ast.IfExp, ast.JoinedStr,
    ast.List, ast.Set, ast.Slice, ast.Starred, ast.Subscript, ast.Tuple, ast.UnaryOp,
)  # fmt: skip


def seen(name: str, last: str, scope: Scope) -> str:
    """Judge a look-up by its full name; by its last part where that is not known."""
    if name[:1] in ("=", "@"):
        return ""
    if name.startswith(_ENVIRON):
        scope.seen.add("environ")
    last = name.rpartition(".")[2] or last
    if last in known.TELLING and not name.startswith(("torch.", "numpy.")):
        return f"{last} may tell what has been imported"
    if last.startswith("__") and last not in _LOOKED_AT and last not in known.OWN_NAMES:
        return f"{last} leads to anything"
    return ""


def _call(node: ast.Call, scope: Scope) -> str:
    function = node.func
    if (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Constant)
        and isinstance(function.value.value, str)
        and function.attr in known.TEXT_METHODS
    ):
        name = "str"
    else:
        name = full_name(function, scope)
        if name not in known.CALLS:
            return f"it calls {_short(function)}"
        seen(name, name, scope)
    if node.keywords and name in known.WITHOUT_KEYWORDS:
        return f"it calls {_short(function)} with what is then called"
    return _all(expression(a, scope) for a in node.args) or _all(
        expression(k.value, scope) for k in node.keywords
    )


def _short(function: ast.expr) -> str:
    text = ast.unparse(function) if isinstance(function, (ast.Name, ast.Attribute)) else ""
    return f"{text}()" if 0 < len(text) <= 50 else "what it made"


def _comprehension(parts: list[ast.expr], loops: list[ast.comprehension], scope: Scope) -> str:
    inner = scope.inner()
    for i, loop in enumerate(loops):
        if loop.is_async:
            return "it may run anything"
        reason = expression(loop.iter, inner if i else scope) or _bind(
            loop.target, UNKNOWN, inner, False
        )
        reason = reason or _all(expression(test, inner) for test in loop.ifs)
        if reason:
            return reason
    return _all(expression(part, inner) for part in parts)


def _function(
    node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope, within_class: bool
) -> str:
    reason = _decorators(node.decorator_list, scope)
    reason = reason or _arguments(node.args, scope, annotations=not scope.late_annotations)
    if not reason and node.returns is not None and not scope.late_annotations:
        reason = expression(node.returns, scope)
    is_property = any(
        full_name(d, scope) == "builtins.property" or isinstance(d, ast.Attribute)
        for d in node.decorator_list
    )
    scope.names[node.name] = PROPERTY if is_property else UNKNOWN
    return reason or bound(node.name, within_class=within_class)


def _arguments(args: ast.arguments, scope: Scope, *, annotations: bool) -> str:
    reason = _all(expression(d, scope) for d in (*args.defaults, *args.kw_defaults) if d)
    if reason or not annotations:
        return reason
    every = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
    return _all(expression(a.annotation, scope) for a in every if a and a.annotation)


def _decorators(decorators: list[ast.expr], scope: Scope) -> str:
    names: list[str] = []
    for node in decorators:
        if isinstance(node, ast.Attribute) and full_name(node.value, scope) == PROPERTY:
            continue  # its setter
        function = node.func if isinstance(node, ast.Call) else node
        names.append(full_name(function, scope))
        if names[-1] not in known.DECORATORS:
            return f"the decorator {_short(function)} may run anything"
        if isinstance(node, ast.Call):
            reason = _all(expression(a, scope) for a in node.args) or _all(
                expression(k.value, scope) for k in node.keywords
            )
            if reason:
                return reason
    if "builtins.classmethod" in names and len(names) > 1:
        return "a decorated classmethod runs when it is looked up"
    return ""


def _class(node: ast.ClassDef, scope: Scope, within_class: bool) -> str:
    bases = [_base(base, scope) for base in node.bases]
    reason = _all(
        "" if b in known.BASES or b in known.ENUMS or b == CLASS else "a base may run anything"
        for b in bases
    )
    is_enum = any(b in known.ENUMS for b in bases)
    reason = reason or _decorators(node.decorator_list, scope)
    for keyword in node.keywords:
        if keyword.arg == "metaclass" and full_name(keyword.value, scope) in known.METACLASSES:
            continue
        if isinstance(keyword.value, ast.Constant) and any(b in known.TYPED_DICT for b in bases):
            continue
        reason = reason or "its keywords are given to what makes the class"
    if is_enum and (
        node.decorator_list or any(b not in known.ENUMS | known.BESIDE_ENUM for b in bases)
    ):
        reason = reason or "an enumeration runs code of its bases"
    inner = scope.inner(is_class=True)
    for child in node.body:
        if reason:
            break
        if is_enum and not _is_plain_member(child, inner):
            reason = "an enumeration runs code of its own"
        reason = reason or statement(child, inner, within_class=True)
    scope.names[node.name] = UNKNOWN if is_enum else CLASS
    return reason or bound(node.name, within_class=within_class)


def _base(node: ast.expr, scope: Scope) -> str:
    """Give the full name of a base class; that of `Generic` for `Generic[T]`."""
    if isinstance(node, ast.Subscript) and not expression(node, scope):
        return full_name(node.value, scope)
    if isinstance(node, ast.Call) and not _call(node, scope):
        made_class = full_name(node.func, scope) == "collections.namedtuple"
        return "builtins.tuple" if made_class else UNKNOWN
    return full_name(node, scope)


def _is_plain_member(node: ast.stmt, scope: Scope) -> bool:
    """Whether a statement of an enumeration's body is a member whose value is no method."""
    if isinstance(node, ast.Pass):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if not isinstance(node, ast.Assign):
        return False
    names = [t.id for t in node.targets if isinstance(t, ast.Name)]
    if len(names) != len(node.targets) or any(name.startswith("_") for name in names):
        return False
    value = node.value
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(
        isinstance(p, (ast.Constant, ast.UnaryOp, ast.BinOp))
        or (isinstance(p, ast.Call) and full_name(p.func, scope) == "enum.auto")
        for p in parts
    )


def _all(reasons: Iterable[str]) -> str:
    """Give the first reason there is."""
    return next((reason for reason in reasons if reason), "")
