"""Names that are imported for type checkers only are not used when the program runs.

pyright does not see this: where it looks, they are there.
"""

import ast
from pathlib import Path

import procession

ROOT = Path(procession.__file__).parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_for_types(node):
    """Whether this is an `if TYPE_CHECKING:`."""
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def names_made_by(statements):
    for node in statements:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((a.asname or a.name).partition(".")[0] for a in node.names)
        elif isinstance(node, ast.Assign):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            yield node.name


def used(node, only, imported=frozenset()):
    """Give (line, name) of each use of one of `only` outside of annotations."""
    if is_for_types(node):
        for each in node.orelse:
            yield from used(each, only, imported)
        return
    if isinstance(node, ast.AnnAssign):
        parts = [node.value] if node.value else []
    elif isinstance(node, FUNCTIONS):
        inside = [n for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom))]
        imported = imported | set(names_made_by(inside))
        defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        parts = [*defaults, *node.decorator_list, *node.body]
    else:
        parts = ast.iter_child_nodes(node)
    if isinstance(node, ast.Name) and node.id in only - imported:
        yield node.lineno, node.id
    for part in parts:
        yield from used(part, only, imported)


def used_in(source):
    tree = ast.parse(source)
    only = set()
    for node in filter(is_for_types, tree.body):
        only |= set(names_made_by(node.body)) - set(names_made_by(node.orelse))
    return list(used(tree, only))


def test_names_for_type_checkers():
    found = {str(path.relative_to(ROOT)): used_in(path.read_text()) for path in ROOT.rglob("*.py")}
    assert {path: uses for path, uses in found.items() if uses} == {}
