"""The structure of the package in figures: `python benchmarks/structure.py [DIRECTORY]`.

With `--check`, what is larger than its budget in `benchmarks/budgets.json` is an error; `--lower`
makes the budgets as small as what is there now. No budget is ever raised.

DIRECTORY: a checkout, or what `git archive REVISION` has unpacked; by default this one. Lines are
lines of code: no comments, docstrings and blank lines, and none of brackets or texts alone. A room
is a package directly below `procession`, or a module beside them. tests/test_layers.py looks at
what rooms import.
"""

import ast
import json
import re
import sys
import tokenize
from pathlib import Path

BUDGETS = "benchmarks/budgets.json"
NO_CODE = {"pass", *"(),:;[]{}"}


def size(root: Path) -> dict[str, int]:
    """Give what has a budget: lines of code and statements by part and by room, words of the docs.

    root: the checkout. Statements are counted too, so that denser lines gain nothing, and bytes of
    data files, so that code does not only move into them.
    """
    source = root / "src" / "procession"
    parts = {
        "src": [source],
        "tests": [root / "tests"],
        "chaos": [root / "chaos"],
        "benchmarks and scripts of docs": [root / "benchmarks", root / "docs"],
    }
    found: dict[str, int] = {}
    for part, where in parts.items():
        files = [path for directory in where for path in directory.rglob("*.py")]
        found[f"{part}: lines"] = sum(map(lines_of, files))
        found[f"{part}: statements"] = sum(map(statements_of, files))
    data = [p for p in source.rglob("*") if p.is_file() and p.suffix not in {".py", ".pyc"}]
    found["src: bytes of data"] = sum(p.stat().st_size for p in data)
    for room in sorted(p for p in source.iterdir() if p.is_dir() and any(p.rglob("*.py"))):
        found[f"src/{room.name}: lines"] = sum(map(lines_of, room.rglob("*.py")))
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    found["docs: words"] = sum(len(p.read_text(encoding="utf-8").split()) for p in pages)
    found["docs: pages"] = len(pages)
    return found


def lines_of(path: Path) -> int:
    """Count lines of code of a file."""
    code: set[int] = set()
    begins = True  # of a line: a text that stands alone is no code
    # Since Python 3.12, an f-string is several tokens.
    text = re.sub(r"\br?fr?(?=[\"'])", "", path.read_text("utf-8"))
    for token in tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__):
        if token.type == tokenize.COMMENT or not token.string.strip():
            begins = begins or token.type != tokenize.COMMENT
            continue
        if token.string not in NO_CODE and not (begins and token.type == tokenize.STRING):
            code.add(token.start[0])
        begins = False
    return len(code)


def statements_of(path: Path) -> int:
    """Count statements of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return sum(isinstance(each, ast.stmt) and not is_docstring(each) for each in ast.walk(tree))


def is_docstring(node: ast.stmt) -> bool:
    """Tell whether a statement is words alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def check(root: Path) -> list[str]:
    """Tell what is above its budget, or has none."""
    budgets: dict[str, int] = json.loads((root / BUDGETS).read_text(encoding="utf-8"))
    return [
        f"{what}: {count}, the budget is {budgets.get(what, 'not in ' + BUDGETS)}"
        for what, count in size(root).items()
        if count > budgets.get(what, -1)
    ]


def lower(root: Path) -> None:
    """Make each budget as small as what is there; none becomes larger."""
    path = root / BUDGETS
    old: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    new = {what: min(count, old.get(what, count)) for what, count in size(root).items()}
    path.write_text(json.dumps(new, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    words = [each for each in sys.argv[1:] if not each.startswith("--")]
    top = Path(words[0]) if words else Path(__file__).parents[1]
    if "--check" in sys.argv:
        sys.exit("\n".join(check(top)) or None)
    elif "--lower" in sys.argv:
        lower(top)
    else:
        for what, figure in size(top).items():
            print(f"{what:<40} {figure}")
