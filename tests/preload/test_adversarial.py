"""Programs that change what an import sees, or look at what was imported: reading stops before."""

import ast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from preloadprograms import Programs

from seams.preload import explain, read
from support import require

require("torch")


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path / "program")


STATEMENTS = [
    # calls, open and hidden
    "f()",
    "sys.path.insert(0, 'x')",
    "warnings.filterwarnings('ignore')",
    "exec('x')",
    "__import__('x')",
    "x = f()",
    "x: f() = 1",
    "x = [f()]",
    "x = [f() for _ in range(3)]",
    "x = [a for a in 'ab' if f()]",
    "x = f'{f()}'",
    "x = f'{1:{f()}}'",
    "x = 1 if f() else 2",
    "x = [1][f()]",
    "x = (lambda a=f(): a)",
    "x = (lambda: 1)()",
    "(lambda: exec('x'))()",
    "x = (y := 1)",
    "(y := os.environ)['A']",
    "print(f())",
    "int(f())",
    "assert f()",
    "print('x')",
    "x = time.time()",
    "await f()",
    "x = [*f()]",
    "int(x=f())",
    # assignments to what others see
    "os.environ['A'] = '1'",
    "os.environ |= {'A': '1'}",
    "sys.path += ['x']",
    "sys.path[:0] = ['x']",
    "del os.environ['A']",
    "a, os.environ['A'] = 1, '2'",
    "os.x: int = 1",
    "path = sys.path; path += ['x']",
    "from sys import path; path += ['x']",
    "a = b = sys.path; a += b",
    "from os import environ as e; e['A'] = '1'",
    "x = [sys.path][0]; x += ['a']",
    "def g(): pass\ng.x = 1",
    "if a:\n  x = []\nelse:\n  x = sys.path\nx += ['a']",
    "x, y = [], sys.path\ny += ['a']",
    # statements that are not known
    "with x: pass",
    "for x in y: pass",
    "for os.environ['A'] in 'ab': pass",
    "match x:\n  case 1: pass",
    "async def g(): pass\nawait g()",
    "try:\n  f()\nexcept E: pass",
    "try: pass\nexcept f(): pass",
    "try: pass\nfinally: f()",
    "if f(): pass",
    "if x: pass\nelse: f()",
    "if not TYPE_CHECKING: f()",
    "if __name__ == '__main__': f()",
    "if __name__ != '__main__': pass\nelse: f()",
    # definitions that run something
    "@f()\ndef g(): pass",
    "@functools.wraps(f())\ndef g(): pass",
    "def g(a=f()): pass",
    "def g(a: f()): pass",
    "def g() -> f(): pass",
    "class A(f()): pass",
    "class A: f()",
    "class A:\n  for x in y: pass",
    "class A:\n  import antigravity",
    "class A(dict):\n  def __missing__(self, k): f()\nA()['x']",
    "class A: pass\nA()",
    "class A(metaclass=abc.ABCMeta, x=f()): pass",
    "class A:\n  global int\n  int = f\nint('1')",
    # names that no longer mean what they did
    "def int(x): os.environ['A'] = '1'\nint('1')",
    "from x import f as len\nlen('a')",
    "if a: int = f\nint('1')",
    "try: pass\nexcept E as int: pass\nint('1')",
    "f = len\nif a:\n  f = g\nf('a')",
    "if a: f = len\nelse: f('a')",
    "class A:\n  f = len\n  x = [f(a) for a in 'ab' for b in [f(a)]]",
    "getLogger = logging.getLogger\nif a: getLogger = f\ngetLogger()",
    "sorted([1], key=f)",
    "list(map(f, [1]))",
    # names by which the import system is steered, or is looked at
    "__path__ = ['x']",
    "def __getattr__(name): f()",
    "__name__ = 'x'",
    "__builtins__ = 1",
    "x = sys.modules",
    "x = 'torch' in sys.modules",
    "s = sys\nx = s.modules",
    "x = sys.meta_path",
    "x = len(warnings.filters)",
    "x = f.__globals__",
    "x = logging.root",
    "if a:\n  s = sys\nelse:\n  s = 1\nx = s.modules",
    "from sys import modules as m\nx = 'torch' in m",
    "[len('a') for len in [f]]",
]

# Code of the program's own that runs without a call that is seen. By kind, as the page has it.
GIVEN_UP = {
    "a decorator that is only named": ["@f\ndef g(): pass", "class A:\n  @f\n  def g(self): pass"],
    "a base class, a metaclass, a keyword of a class": [
        "class A(B): pass",
        "class A(metaclass=M): pass",
        "class A(x=1): pass",
    ],
    "a method that Python calls": [
        "class A:\n  def __init_subclass__(cls): f()\nclass B(A): pass",
        "class A:\n  def __set_name__(self, o, n): f()\nclass B: x = A",
        "class E(enum.Enum):\n  A = 1\n  def __init__(self, x): f()",
        "x = collections.defaultdict(f)\nx[0]",
        "x = a + b, a.b, a[0], a == b",
    ],
    "a name that means something else": [
        "class A:\n  int = f\n  x = int('1')",
        "logging = f\nlogging.getLogger()",
        "from math import *\nint('1')",
    ],
    "an attribute that imports": ["x = torch.distributed.nn"],
}

KNOWN = (
    "import abc, enum, functools, collections, importlib, logging, os, sys, time, warnings, torch\n"
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_reading_stops(programs, statement):
    plan = programs.script(f"{KNOWN}{statement}\nimport numpy\n")
    assert "numpy" not in plan.modules
    at = plan.stopped_at
    assert at is not None
    if "cannot be parsed" not in at.reason:
        # Not before the statement, nor at the import after it.
        assert 1 < at.line < 2 + statement.count("\n") + 1
        assert plan.modules[-1] in ("torch", "math")


@pytest.mark.parametrize(
    "statement",
    [
        "from local import getLogger\nx = getLogger(__name__)",
        "from local import getLogger as g\nx = g.join('a')",
        "import local as os\nx = os.path.join('a', 'b')",
        "import local as logging\nx = logging.getLogger()",
        "from unknown_package import Path\nx = Path(__file__)",
        "import unknown_package\nx = unknown_package.get('a')",
    ],
)
def test_a_harmless_name_of_what_is_not_known_is_any_call(programs, statement):
    local = "import os\ndef getLogger(name): os.environ['A'] = '1'"
    plan = programs.script(f"{KNOWN}{statement}\nimport numpy\n", local=local)
    assert "numpy" not in plan.modules


@pytest.mark.parametrize("statement", [s for kind in GIVEN_UP.values() for s in kind])
def test_what_the_page_gives_up_is_read_over(programs, statement):
    assert "numpy" in programs.script(f"{KNOWN}{statement}\nimport numpy\n").modules


@pytest.mark.parametrize("statement", [s for s in STATEMENTS if "__name__" not in s])
def test_reading_stops_within_a_local_module(programs, statement):
    try:
        ast.parse(statement)
    except SyntaxError:
        pytest.skip("only the script may be unreadable")
    text = KNOWN.strip() + "\n" + statement
    plan = programs.script("import local\nimport numpy\n", local=text)
    assert "numpy" not in plan.modules
    assert plan.stopped_at.file.endswith("local.py")


@pytest.mark.parametrize(
    ("main", "local"),
    [
        ("from local import *\nx = s.modules", "import sys as s"),
        ("from local import *\npath += ['x']", "from sys import path"),
        ("from local import *\nx += ['x']", "import sys\nx = sys.path"),
        ("from local import x\nx += ['x']", "import sys\nx = sys.path"),
        ("import local\nlocal.x += ['x']", "x = []"),
        ("import local\nlocal.sys.path.append('x')", "import sys"),
        ("import local\nx = local.sys.modules", "import sys"),
        ("import local\nlocal.f()", "f = len\ndef f(): pass"),
        ("from local import x", "def __getattr__(name): exec(name)"),
        ("import local", "import sys\nsys.modules[__name__] = 1"),
        ("import local", "x = ("),
    ],
)
def test_reading_stops_across_modules(programs, main, local):
    plan = programs.script(f"{main}\nimport numpy\n", local=local)
    assert plan.stopped_at is not None
    assert "numpy" not in plan.modules


@pytest.mark.parametrize(
    "package",
    [
        "from math import *",
        "try:\n  import json\nexcept ImportError as name:\n  pass",
    ],
)
def test_a_submodule_whose_name_its_package_may_have_stops(programs, package):
    files = {"pkg/__init__": package, "pkg/name": "import csv"}
    plan = programs.script("from pkg import name\nimport glob", **files)
    assert "may be a submodule" in plan.stopped_at.reason
    assert not {"csv", "glob"} & set(plan.modules)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.binary(max_size=200))
def test_no_bytes_raise(programs, data):
    programs.directory.mkdir(exist_ok=True)
    script = programs.directory / "main.py"
    script.write_bytes(data)
    assert read.plan_script(str(script), programs.path).modules == ()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.text(max_size=80) | st.lists(st.sampled_from(STATEMENTS), max_size=12).map(" ".join))
def test_no_text_raises(programs, text):
    plan = programs.script(text.encode(errors="replace").decode())
    assert explain(plan)
