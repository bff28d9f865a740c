"""Every test can fail: what is asserted is one thing, and each test asserts something."""

import ast
from pathlib import Path

HERE = Path(__file__).parent
FILES = {str(path.relative_to(HERE)): path for path in sorted(HERE.rglob("*.py"))}
# Of what a process ended with, a test knows one value, or says in an `if` when it is another.
OF_AN_END = ("returncode", "code", "exit_code", "signal", "outcome", "status")
# What fails a test without the word `assert`.
FAILING = {"raises", "fail", "warns", "until"}


def doubts(test):
    """Tell why an assertion says too little."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        yield "`or`: assert one thing, and say in an `if` when it is to be expected"
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from doubts(part)
    if isinstance(test, (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.JoinedStr)):
        yield "it is always the same"
    if isinstance(test, (ast.GeneratorExp, ast.Lambda)):
        yield "it is always true"
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In):
        left = test.left
        name = getattr(left, "attr", getattr(left, "id", ""))
        if name in OF_AN_END and isinstance(test.comparators[0], (ast.Tuple, ast.Set, ast.List)):
            yield f"{name} is compared with several values: one of them is right"


def wrong_assertions(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            for why in doubts(node.test):
                yield node.lineno, f"{ast.unparse(node)}: {why}"


def swallowed(tree):
    """Find assertions whose failure is caught beside them."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try) or not holds_assertion(node.body):
            continue
        for handler in node.handlers:
            caught = ast.unparse(handler.type) if handler.type else "BaseException"
            raises = any(isinstance(n, ast.Raise) for n in ast.walk(handler))
            wide = {"BaseException", "Exception", "AssertionError"} & set(caught.split())
            if wide and not raises:
                yield node.lineno, f"except {caught} hides an assertion that failed"


def holds_assertion(nodes):
    return any(isinstance(n, ast.Assert) for node in nodes for n in ast.walk(node))


def called(function):
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "attr", getattr(node.func, "id", ""))


def functions(tree):
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]


def asserting(trees):
    """Give the names of functions that fail a test, themselves or by what they call."""
    known = set(FAILING)
    todo = [f for tree in trees for f in functions(tree)]
    while True:
        new = {
            f.name
            for f in todo
            if f.name not in known and (holds_assertion([f]) or known & set(called(f)))
        }
        if not new:
            return known
        known |= new


TREES = {name: ast.parse(path.read_text()) for name, path in FILES.items()}
ASSERTING = asserting(TREES.values())


def without_assertion(tree):
    for f in functions(tree):
        if f.name.startswith("test_") and f.name not in ASSERTING:
            yield f.lineno, f"{f.name} asserts nothing"


def test_names_of_test_files():
    """Outside of packages they are modules of one room: pytest refuses the second of a name."""
    alone = [p.name for p in FILES.values() if not (p.parent / "__init__.py").exists()]
    assert [n for n in sorted(set(alone)) if n.startswith("test_") and alone.count(n) > 1] == []


def test_every_test_can_fail():
    found = [
        f"{name}:{line}: {why}"
        for name, tree in TREES.items()
        for line, why in (*wrong_assertions(tree), *swallowed(tree), *without_assertion(tree))
    ]
    assert found == []
