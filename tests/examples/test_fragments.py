"""Blocks of the pages that nobody can run as they stand: their words are those of procession.

A block of Python that needs a GPU, a cluster, a data set or what stands above it is compiled; what
it takes from procession must be there, with the parameters that it names. Of a command line, the
options must be there. Blocks that are run are in `test_pages`.
"""

import ast
import inspect
import shlex
from importlib import import_module

import pytest
from pages import ROOT, blocks

from seams.cli import COMMANDS, parsers

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted(DOCS.rglob("*.md"))]


def found(languages):
    return [
        pytest.param(block, id=f"{page.relative_to(ROOT)}:{block.line}")
        for page in PAGES
        for block in blocks(page.read_text())
        if block.language in languages
    ]


def resolve(chain):
    """Give what a dotted name of procession means; None where it is somebody else's."""
    names = chain.split(".")
    if names[0] != "procession":
        return None
    value = import_module("procession")
    for at, name in enumerate(names[1:], 1):
        if not hasattr(value, name):
            import_module(".".join(names[: at + 1]))
        value = getattr(value, name)
    return value


def bound(tree):
    """Give the names that a block imports from procession: what each of them means."""
    names = {"procession": "procession"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.partition(".")[0] == "procession":
                    resolve(each.name)
                    names[each.asname or "procession"] = each.name if each.asname else "procession"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("procession"):
            import_module(node.module)
            for each in node.names:
                names[each.asname or each.name] = f"{node.module}.{each.name}"
    return names


def check(node, names):
    """Resolve a name or a call of procession's. Raises AttributeError or ImportError."""
    called = node.func if isinstance(node, ast.Call) else node
    first, *rest = ast.unparse(called).split(".")
    if first not in names or not all(part.isidentifier() for part in rest):
        return
    value = resolve(".".join([names[first], *rest]))
    if isinstance(node, ast.Call) and callable(value):
        takes = inspect.signature(value).parameters
        if any(each.kind is each.VAR_KEYWORD for each in takes.values()):
            if value is not resolve("procession.run"):
                return  # it takes any
            takes = {**takes, **inspect.signature(resolve("procession.start")).parameters}
        given = {each.arg for each in node.keywords if each.arg}
        assert given <= takes.keys(), (ast.unparse(node), given - takes.keys())


@pytest.mark.parametrize("block", found(("python",)))
def test_python(block):
    tree = ast.parse(block.text)
    names = bound(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Call):
            check(node, names)


def command_lines(text):
    """Give the command lines of procession in a block, without what pipes and comments add."""
    for line in text.replace("\\\n", " ").splitlines():
        words = line.removeprefix("$ ").partition(" #")[0].partition(" | ")[0].partition(" && ")[0]
        if words.startswith("procession "):
            yield words.partition(" >")[0]


@pytest.mark.parametrize("block", found(("sh", "console", "bash")))
def test_options(block):
    known = parsers()
    for line in command_lines(block.text):
        command, *words = shlex.split(line)[1:]
        if command.startswith("-"):
            continue
        assert command in COMMANDS, line
        if command in ("run", "adopt"):  # what follows is the program's
            known[command].read([word for word in words if word != "..."])
        elif command in known:
            known[command].read(words, mixed=True)
