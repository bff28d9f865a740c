"""What is imported early because a program's words lead to it: only if none of them changes it."""

import importlib
import sys
import textwrap

import pytest
from listedpackage import listed_package
from preloadprograms import REST
from sides import ranks, script

import procession
from seams.preload import read, source
from support import write

# A package as torch is: its `Heavy` imports the rest when it is used.
HEAVY = """import os
class Heavy:
    def __init__(self):
        import listed.late
        self.late = listed.late
"""
BEGINS = "import os, sys, listed\nfrom listed import Heavy\n"
LATE = ("listed.late",)


@pytest.fixture
def package(tmp_path, monkeypatch):
    with listed_package(tmp_path, monkeypatch) as make:

        def made(**submodules):
            there = make(**submodules)
            (there / "__init__.py").write_text(HEAVY)
            return there

        yield made


@pytest.fixture
def found(tmp_path, package):
    """Give what is to be imported of a script, with local modules by their paths without `.py`."""
    package(late="")

    def find(text, **files):
        for name, code in {"main": text, **files}.items():
            write(tmp_path / "own" / f"{name}.py", textwrap.dedent(code))
        path = [str(tmp_path / "own"), str(tmp_path / "site-packages"), *REST]
        return read.plan_script(str(tmp_path / "own" / "main.py"), path).later

    return find


LEADS = [
    "from listed import Heavy as H",
    "import listed\ndef f():\n    return listed.Heavy(3)",
    "import listed\nclass A(listed.x.Heavy): pass",
    "import listed\nimport listed.Heavy.x",
    BEGINS + "x = os.environ['RANK'], os.environ.get('A'), os.environ.get(sys.argv[0])",
    BEGINS + "os.environ['OTHER'] = '1'; os.environ.setdefault('MASTER_PORT', '2')",
    BEGINS + "print(os.environ, dict(os.environ, A='1')); Heavy().eval(); {}.update(a=1)",
    BEGINS + "def f():\n    import nobody_knows, wandb, mpi4py",
    BEGINS + "x = " + "(" * 150 + ")" * 150,
]
DOES_NOT = [
    "import listed  # Heavy",
    '"""Heavy."""\nimport listed\n"Heavy"',
    "import listed\nHeavyweight = heavy = 1",
    "f()\nfrom listed import Heavy",  # the package is not preloaded
    "import json\nHeavy = json",
    # What could change what the import sees.
    BEGINS + "os.environ['LISTED_X'] = '1'",
    BEGINS + "def f():\n    if Heavy:\n        os.environ.setdefault('LISTED_X', '1')",
    BEGINS + "os.putenv('LISTED_X', '1')",
    BEGINS + "del os.environ['LISTED_X']",
    BEGINS + "os.environ.update(LISTED_X='1')",
    BEGINS + "dict(LISTED_X='1')",
    BEGINS + "for name in ('LISTED_X',): os.environ[name] = '1'",
    BEGINS + "os.environ[sys.argv[1]] = '1'",
    BEGINS + "os.environ |= f()",
    BEGINS + "from os import environ\nenviron.update(f())",
    BEGINS + "os.environ.clear()",
    BEGINS + "from dotenv import load_dotenv\nload_dotenv()",
    BEGINS + "os.chdir('/')",
    BEGINS + "import logging.config\nlogging.config.dictConfig({})",
    BEGINS + "from logging.config import fileConfig as f",
]


@pytest.mark.parametrize("text", LEADS)
def test_words_that_lead_to_it(found, text):
    assert found(text) == LATE


@pytest.mark.parametrize("text", DOES_NOT)
def test_words_that_do_not(found, text):
    assert found(text) == ()


def test_local_modules_are_read_wherever_they_are_imported(found, tmp_path, monkeypatch):
    own = {"own/__init__": "", "own/a": "def f():\n    from . import b\n    from .c.d import e"}
    own |= {"own/b": "import listed, own.a", "own/c/__init__": "", "own/c/d": "e = 1"}
    text = "import listed\ndef f():\n    from own import a"
    assert found(text, **own) == ()
    bad = "import os\nos.chdir('/')"
    for name in ("own/b", "own/c/d"):
        with_name = own | {name: f"{own[name]}\nfrom listed import Heavy"}
        assert found(text, **with_name) == LATE
        for other in {"own/__init__", "own/b", "own/c/__init__", "own/c/d"} - {name}:
            assert found(text, **with_name | {other: bad}) == ()
    for unreadable in ("x = (", "\0", "# coding: nonsense"):
        assert found(BEGINS + "def f():\n    import c", c=unreadable) == ()
    monkeypatch.setattr(source, "MOST", 600)
    assert found(BEGINS + "def f():\n    import c", c="x = 1\n" * 100) == ()


# -- as ranks see it

SOURCE = """
import os
import listed
from listed import Heavy


def use():
    return Heavy().late


late = use()
seen = {"early": late.imported_by != os.getpid(), "value": getattr(late, "value", None)}
"""


def program(directory, source=SOURCE):
    return procession.Script(str(script(directory, source)))


def launch(program, directory, **options):
    (rank,) = ranks(program, directory, nproc=1, **options)
    return rank


def test_ranks_have_it(tmp_path, package):
    package(late="value = os.environ.get('LISTED_X')\nos.environ['LISTED_SET'] = '1'")
    source = f"import os\nset = os.environ.get('LISTED' + '_SET')\n{SOURCE}\nseen['set'] = set"
    it = program(tmp_path, source)
    assert launch(it, tmp_path).seen == {"early": True, "value": None, "set": None}
    for options in ({"preload": None}, {"preload": ["listed"]}):
        assert not launch(it, tmp_path, **options).seen["early"]
    for two, early in (("1", True), ("2", False)):
        found = ranks(it, tmp_path, env={0: {"LISTED_X": "1"}, 1: {"LISTED_X": two}})
        expected = [{"early": early, "value": value, "set": None} for value in ("1", two)]
        assert [rank.seen for rank in found] == expected


FUNCTION = """
import os
import listed
from listed import Heavy


def work():
    {0}
    late = Heavy().late
    return late.imported_by != os.getpid(), getattr(late, "value", None)


nested = lambda: (lambda: work())()
"""


@pytest.fixture
def functions(tmp_path, package, monkeypatch):
    """Give a function of a module that this process has imported, by what it does at first."""

    def make(first="pass", name="work"):
        write(tmp_path / "own" / "workmodule.py", FUNCTION.format(first))
        monkeypatch.syspath_prepend(str(tmp_path / "own"))
        for module in ("workmodule", "listed", "listed.late"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        return getattr(importlib.import_module("workmodule"), name)

    yield make
    for module in ("workmodule", "listed", "listed.late"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize(
    ("name", "first", "expected"),
    [
        ("work", "pass", (True, None)),
        ("nested", "pass", (True, None)),
        ("work", "os.environ['LISTED_X'] = '2'", (False, "2")),
    ],
)
def test_a_function(package, functions, name, first, expected):
    package(late="value = os.environ.get('LISTED_X')")
    work = functions(first, name)
    assert procession.run(work, nproc=1, preload=None)[0] == (False, expected[1])
    assert procession.run(work, nproc=1)[0] == expected
