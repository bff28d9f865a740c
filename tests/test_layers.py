"""The structure of the package: rooms in one order, no cycles, and what a rank may import.

A room is a package directly below `procession`, or one of the few modules beside them. An import
counts wherever it stands, also inside a function and for types only.
"""

import ast
import re
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import procession

ROOT = Path(procession.__file__).parent
# From top to bottom; see docs/design.md. A room may import what stands behind it.
ROOMS = [
    "__main__",
    "__init__",
    "cli",
    "xla",
    "forkserver",
    "jax",
    "telemetry",
    "elastic",
    "multiprocessing",
    "pytest",
    "api",
    "group",
    "control",
    "view",
    "driver",
    "engines",
    "machine",
    "explain",
    "prepare",
    "preload",
    "warm",
    "agent",
    "output",
    "worker",
    "devices",
    "adoption",
    "rules",
    "system",
    "values",
]
LONGEST = 450  # lines of a file, at most
DROP_INS = ("elastic", "multiprocessing", "xla")
FOR_TYPES = ("typing_extensions",)  # imported by type checkers alone
IN_EVERY_RANK = (
    "worker/",
    "rules/__init__",
    "rules/lifecycle",
    "rules/messages",
    "rules/tables",
    "agent/",
    "system/__init__",
    "system/eventloop",
    "system/facts",
    "system/files",
    "system/identity",
    "system/libraries",
    "system/prctl",
    "system/processes",
    "system/vfork",
    "system/tree",
    "values/base",
    "values/environment",
    "values/errors",
)
OF_LAUNCHERS = ("agent/boot", "agent/client", "agent/pool")

FILES = {p.relative_to(ROOT).with_suffix("").as_posix(): p for p in ROOT.rglob("*.py")}


def file_of(module):
    """Give the file of a module of the project, None for a name that is no module."""
    path = module.removeprefix("procession").lstrip(".").replace(".", "/")
    return next((n for n in (path, f"{path}/__init__".lstrip("/")) if n in FILES), None)


def imports_of(name, *, when_imported=False):
    """List (line, module) of a file's imports; those inside functions and for types count, too.

    when_imported: only those that run when the module is imported.
    """
    found = []

    def visit(node):
        if when_imported and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        if when_imported and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.Import):
            found.extend((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno}: imports are absolute"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            found.extend((node.lineno, m if file_of(m) else node.module) for m in full)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(FILES[name].read_text(encoding="utf-8")))
    return found


def ours(module):
    return module.partition(".")[0] == "procession"


def room_of(name):
    return name.partition("/")[0]


@cache
def graph():
    """Give the files that each file imports."""
    found = {}
    for name in FILES:
        targets = {(line, module, file_of(module)) for line, module in imports_of(name)}
        for line, module, target in targets:
            if ours(module):
                assert target is not None, f"{name}.py:{line}: there is no {module}"
        found[name] = {target for _, module, target in targets if ours(module)} - {name}
    return found


def cycle_of(arrows):
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as e:
        return e.args[1]
    return None


def test_every_file_stands_in_a_room():
    assert {room_of(name) for name in FILES} == set(ROOMS)


def test_no_file_is_too_long_for_one_subject():
    lines = {name: len(path.read_text("utf-8").splitlines()) for name, path in FILES.items()}
    assert {name: n for name, n in lines.items() if n > LONGEST} == {}


def test_imports_point_down():
    found = [
        f"{name}.py imports {target}, which is above"
        for name, targets in graph().items()
        for target in targets
        if ROOMS.index(room_of(target)) < ROOMS.index(room_of(name))
    ]
    assert found == []


def test_no_cycle_of_imports():
    assert cycle_of(graph()) is None


def test_what_explains_an_end_cannot_make_a_process():
    seen, waiting = set(), [name for name in FILES if room_of(name) == "explain"]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph()[name]
    makers = {n for n in seen if room_of(n) in ("agent", "group", "driver")}
    assert not makers | (seen & {"prepare/jobs", "prepare/payload", "prepare/resources"})


def test_a_package_says_what_it_is_for():
    for package in (n for n in FILES if n.endswith("/__init__")):
        said = ast.get_docstring(ast.parse(FILES[package].read_text(encoding="utf-8")))
        assert said, package
        said = " ".join(said.split())
        if package.count("/") == 1 and room_of(package) not in DROP_INS:
            assert re.search("[Mm]ay import|[Ii]mports", said), f"{package}: what may it import?"
            assert "tart reading" in said, f"{package}: where should one start reading?"


def test_a_rank_imports_the_standard_library_only():
    here = {n for n in FILES if n.startswith(IN_EVERY_RANK) and not n.startswith(OF_LAUNCHERS)}
    for name in here:
        for line, module in imports_of(name):
            if ours(module):
                allowed = file_of(module) in here
            else:
                allowed = module.partition(".")[0] in (*sys.stdlib_module_names, *FOR_TYPES)
            assert allowed, f"{name}.py:{line}: {module}"


@pytest.mark.parametrize("package", ["__init__", "agent/__init__", "system/__init__"])
def test_packages_that_a_rank_passes_through_import_nothing_else(package):
    for line, module in imports_of(package, when_imported=True):
        root = module.partition(".")[0]
        assert root in sys.stdlib_module_names, f"{package}.py:{line}: {module}"
