"""The inside of procession is named in `tests/seams` only, and what stands there exists."""

import ast
import importlib
import re
from pathlib import Path

import procession

ROOT = Path(procession.__file__).parent
TESTS = Path(__file__).parent
SEAMS = sorted(p.stem for p in (TESTS / "seams").glob("*.py") if p.stem != "__init__")
# They run in processes that do not find `tests`.
APART = {"sitecustomize.py", "samework.py", "leakwork.py", "stackwork.py"}
FILES = sorted(
    p.relative_to(TESTS).as_posix()
    for p in TESTS.rglob("*.py")
    if p.parent.name != "seams" and p.name not in APART
)
# What users import, below `procession` and the drop-ins themselves.
PUBLIC = r"procession\.elastic\.(api|errors|redirects|tail_log)\b"
PACKAGES = {
    "procession",
    "procession.devices",
    "procession.elastic",
    "procession.forkserver",
    "procession.multiprocessing",
    "procession.multiprocessing.spawn",
    "procession.telemetry",
    "procession.xla",
}


def test_all_names_of_seams_exist():
    missing = []
    for seam in SEAMS:
        module = importlib.import_module(f"seams.{seam}")
        for name in module.__getattr__.module_of:
            try:
                getattr(module, name)
            except (AttributeError, ImportError) as e:
                missing.append(f"{seam}.{name}: {e}")
    assert missing == []


def is_inside(module, name):
    """Whether a name of a module is the inside of procession."""
    if module not in PACKAGES:
        return not re.match(PUBLIC, module)
    path = ROOT.joinpath(*module.split(".")[1:], name)
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_the_inside_is_imported_from_seams():
    found = [
        f"{file}:{node.lineno}: {node.module} {alias.name}"
        for file in FILES
        for node in ast.walk(ast.parse((TESTS / file).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "procession"
        for alias in node.names
        if is_inside(node.module, alias.name)
    ]
    assert not found, "see tests/seams"
