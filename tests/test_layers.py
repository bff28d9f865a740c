"""Imports point down only; what runs in every rank imports the standard library only.

The layers are those of docs/design.md. A new file must be placed here.
"""

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import procession

ROOT = Path(procession.__file__).parent
FACE = 9  # imports lazily, by table; nothing of the project may import it but for its version
LAYERS = {
    0: "values typed ranks policy placement exit errors events eventkinds spec rankenv",
    1: "lifecycle report cpusets restarting",
    2: "system/ output/ view/ forkserver/ worker/ results board named payload pickling devices/ "
    "preload/ stacks/",
    3: "preloading learning placing spawner ends facts handlers journal rankprocesses recovery "
    "lastlook hangs supervisor summary",
    4: "looking group control/ engines/ launch processes",
    5: "cli/ elastic/ multiprocessing/ xla/ jax telemetry",
    FACE: "__init__ __main__",
}
IN_EVERY_RANK = (
    "worker/",
    "forkserver/server",
    "forkserver/forking",
    "forkserver/programs",
    "forkserver/preload",
    "forkserver/protocol",
    "system/prctl",
    "system/signals",
    "system/vfork",
    "system/tree",
)

FILES = {p.relative_to(ROOT).with_suffix("").as_posix(): p for p in ROOT.rglob("*.py")}


def layer_of(name):
    """Give the layer of a file such as `output/lines`, None if it has no place."""
    for layer, places in LAYERS.items():
        if any(name == p or (p.endswith("/") and name.startswith(p)) for p in places.split()):
            return layer
    return None


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


@pytest.mark.parametrize("name", sorted(FILES))
def test_imports_point_down(name):
    assert layer_of(name) is not None, f"{name}.py has no layer: place it in {__file__}"
    for line, module in imports_of(name):
        if not ours(module) or (module == "procession" and name.startswith(("cli/", "engines/"))):
            continue  # commands and agents tell the version of the package
        target = file_of(module)
        assert target is not None, f"{name}.py:{line}: there is no {module}"
        assert layer_of(target) <= layer_of(name), f"{name}.py:{line}: {module} is above"


@pytest.mark.parametrize("name", sorted(n for n in FILES if n.startswith(IN_EVERY_RANK)))
def test_a_rank_imports_the_standard_library_only(name):
    for line, module in imports_of(name):
        if ours(module):
            allowed = (file_of(module) or module).startswith(IN_EVERY_RANK)
        else:
            allowed = module.partition(".")[0] in sys.stdlib_module_names
        assert allowed, f"{name}.py:{line}: {module}"


@pytest.mark.parametrize("package", ["__init__", "forkserver/__init__", "system/__init__"])
def test_packages_that_a_rank_passes_through_import_nothing_else(package):
    for line, module in imports_of(package, when_imported=True):
        root = module.partition(".")[0]
        assert root in sys.stdlib_module_names, f"{package}.py:{line}: {module}"


def test_no_circle_of_imports():
    graph = {
        name: {file_of(m) for _, m in imports_of(name, when_imported=True) if ours(m)} - {name}
        for name in FILES
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as e:
        pytest.fail(" -> ".join(e.args[1]))


def test_every_place_is_taken():
    for places in LAYERS.values():
        for place in places.split():
            assert place == "__main__" or any(n.startswith(place) for n in FILES), place
