"""What is foreseen by reading all of a program: only what nothing in it could change."""

import textwrap

import pytest
from listedpackage import listed_package
from preloadprograms import REST

from seams.preload import later, read, safe
from support import write

LATE = ("listed.late",)


@pytest.fixture
def package(tmp_path, monkeypatch):
    with listed_package(tmp_path, monkeypatch) as make:
        yield make


@pytest.fixture
def foreseen(tmp_path, package):
    """Give what is foreseen of a script, with local modules by their paths without `.py`."""
    package(late="")

    def foresee(text, **files):
        for name, source in {"main": text, **files}.items():
            write(tmp_path / "own" / f"{name}.py", textwrap.dedent(source))
        path = [str(tmp_path / "own"), str(tmp_path / "site-packages"), *REST]
        return read.plan_script(str(tmp_path / "own" / "main.py"), path).later

    return foresee


NAMED = {
    "from": "from listed import Heavy",
    "another name": "from listed import Heavy as H",
    "attribute": "import listed\ndef f():\n    return listed.Heavy(3)",
    "in a class": "import listed\nclass A(listed.x.Heavy): pass",
    "a module": "import listed\nimport listed.Heavy.x",
    "twice": "import listed\nlisted.Heavy\nlisted.Heavy",
    "after a definition": "import listed\ndef f(): pass\nfrom listed import Heavy",
}


@pytest.mark.parametrize("text", NAMED.values(), ids=NAMED)
def test_a_name_in_the_code(foreseen, text):
    assert foreseen(text) == LATE


NOT_NAMED = {
    "nothing": "import listed",
    "a comment": "import listed  # Heavy",
    "a docstring": '"""Heavy."""\nimport listed\n"Heavy"',
    "another name": "import listed\nHeavyweight = heavy = 1",
    "its package is not preloaded": "f()\nfrom listed import Heavy",
    "its package is not imported": "import json\nHeavy = json",
}


@pytest.mark.parametrize("text", NOT_NAMED.values(), ids=NOT_NAMED)
def test_no_name(foreseen, text):
    assert foreseen(text) == ()


BEGINS = "import os, sys, warnings, logging, tempfile, listed\nfrom listed import Heavy\n"

HARMLESS = {
    "reads a variable": "x = int(os.environ['RANK']) + int(os.environ.get('A', '0'))",
    "asks for a variable": "if 'RANK' in os.environ or 'A' not in os.environ: os.getenv('B')",
    "weights": "listed.load('x', weights_only=True)",
    "a module of a module": "print(listed.os.getcwd(), listed.sys.argv)",
    "its own name for it": "from os import environ\nprint(environ['A'], environ.get('B'))",
    "arguments": "print(sys.argv, sys.stdout, sys.version_info); sys.exit(0)",
    "paths": "os.makedirs(os.path.join('a', 'b')); x = os.getcwd()",
    "methods": "Heavy().eval(); Heavy().compile(); x = Heavy().modules()",
    "words": "'eval, exec and importlib are words, and so is chdir'",
    "silence": "warnings.filterwarnings('ignore'); warnings.simplefilter('ignore', UserWarning)",
    "logs": "logging.basicConfig(level=20); logging.getLogger('x').setLevel(10)",
    "the standard library": "import argparse, json, re, subprocess, threading; re.compile('x')",
    "in a function": "def f():\n    import random, math\n    from collections import deque",
    "a listed package": "import listed.late\nfrom listed import late, nothing",
    "its own attributes": "class A: pass\nA.x = 1\nA().y = 2\nsetattr(A, 'z', 3)",
    "of what it makes": "x = Heavy()\nx.weight = 1\nx.bias.data = 2",
    "types": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from listed import late",
}


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_what_changes_nothing(foreseen, text):
    assert foreseen(BEGINS + text) == LATE


HARMFUL = {
    "replaces a function of a module": "import functools\nfunctools.lru_cache = print",
    "by another name": "import functools as f\nf.lru_cache = print",
    "of a part of a module": "import os.path\nos.path.join = print",
    "of a class that it imports": "from collections import OrderedDict\nOrderedDict.get = print",
    "of a listed package": "listed.late = 1",
    "with setattr": "import json\nsetattr(json, 'loads', print)",
    "deletes one": "import json\ndel json.loads",
    "a method that Python calls": "Heavy.__init_subclass__ = print",
    "a statement in a text": "import timeit\ntimeit.timeit('x')",
    "a profile of a text": "import cProfile",
    "names of a function": "os.getenv.__globals__['x'] = 1",
    "names of a frame": "import inspect\ninspect.currentframe().f_back",
    "a module by its function": "import inspect\ninspect.getmodule(os.getenv)",
    "sets a variable": "os.environ['A'] = '1'",
    "sets one in a function": "def f():\n    if Heavy:\n        os.environ['A'] = '1'",
    "takes one away": "del os.environ['A']",
    "adds to one": "os.environ['A'] += '1'",
    "adds to all": "os.environ |= {'A': '1'}",
    "updates them": "os.environ.update(A='1')",
    "sets a default": "os.environ.setdefault('A', '1')",
    "pops one": "os.environ.pop('A')",
    "gives them away": "print(os.environ)",
    "gives another name": "e = os.environ",
    "imports them": "from os import environ\nenviron['A'] = '1'",
    "imports them by another name": "from os import environ as e",
    "imports all": "from os import *",
    "another name for os": "import os as o",
    "another name for sys": "import sys as s",
    "another name for what a module has": "from listed import environ as e",
    "another name for a module of a module": "from listed import os as o",
    "another name for a filter": "from warnings import simplefilter as f",
    "os of a module": "x = listed.os",
    "sys of a module": "listed.sys.path.append('x')",
    "a variable in a loop": "for os.environ['A'] in '12': pass",
    "a method of the variables": "f = os.environ.get",
    "os itself": "getattr(os, 'env' + 'iron')",
    "by a string": "getattr(Heavy, 'environ')",
    "mocked": "f = Heavy.patch.dict('os.environ', A='1')",
    "putenv": "os.putenv('A', '1')",
    "imports putenv": "from os import putenv",
    "unsetenv": "os.unsetenv('A')",
    "environb": "os.environb[b'A'] = b'1'",
    "sys.path": "sys.path.append('x')",
    "sets sys.path": "sys.path = []",
    "sys itself": "f = getattr(sys, 'path')",
    "modules": "sys.modules.clear()",
    "from sys": "from sys import path",
    "finders": "sys.meta_path.clear()",
    "a stream": "sys.stdout = open('x', 'w')",
    "a hook": "sys.settrace(print)",
    "a hook of threads": "import threading\nthreading.setprofile(print)",
    "the directory": "os.chdir('/')",
    "the user": "os.setuid(1)",
    "the mask": "os.umask(0)",
    "temporary files": "tempfile.tempdir = '/'",
    "exec": "exec('x = 1')",
    "eval": "eval('1')",
    "compile": "compile('1', '', 'eval')",
    "__import__": "__import__('json')",
    "importlib": "import importlib",
    "a part of it": "from importlib import metadata",
    "runpy": "import runpy",
    "ctypes": "import ctypes",
    "from ctypes": "def f():\n    from ctypes import CDLL",
    "pickle": "import pickle",
    "weights": "listed.load('x', weights_only=False)",
    "builtins": "import builtins",
    "warnings as errors": "warnings.filterwarnings('error')",
    "warnings by a variable": "f = warnings.simplefilter",
    "imports a filter": "from warnings import simplefilter\nsimplefilter('error')",
    "loggers": "import logging.config\nlogging.config.dictConfig({})",
    "torch's device": "listed.set_default_device('cuda')",
    "what the import sets": "x = os.environ.get('LISTED_SET')",
    "a package that is not listed": "import nobody_knows",
    "one under a condition": "try:\n    import nobody_knows\nexcept ImportError:\n    pass",
    "one in a function": "def f():\n    import wandb",
    "one that is known to be bad": "import mpi4py",
    "a bad part of the standard library": "import readline",
    "beyond its package": "def f():\n    from . import x",
}


@pytest.mark.parametrize("text", HARMFUL.values(), ids=HARMFUL)
def test_what_could_change_what_the_import_sees(foreseen, text):
    assert foreseen(BEGINS + text) == ()


def test_a_part_of_a_listed_package_that_is_not_safe(foreseen, tmp_path, monkeypatch):
    write(tmp_path / "site-packages" / "listed" / "bad.py", "x = 1")
    entry = safe._LIST["listed"]
    monkeypatch.setitem(safe._LIST, "listed", entry.__replace__(apart={"listed.bad": "it is bad"}))
    for text in ("import listed.bad", "from listed import bad", "from listed.bad import x"):
        assert foreseen(f"{BEGINS}def f():\n    {text}") == ()
    assert foreseen(f"{BEGINS}def f():\n    from listed import good") == LATE


def test_local_modules_are_read_wherever_they_are_imported(foreseen):
    own = {"own/__init__": "", "own/a": "def f():\n    from . import b\n    from .c.d import e"}
    own |= {"own/b": "import listed", "own/c/__init__": "", "own/c/d": "e = 1"}
    text = "import listed\ndef f():\n    from own import a"
    assert foreseen(text, **own) == ()
    bad = "import os\nos.environ['A'] = '1'"
    for name in ("own/b", "own/c/d"):
        with_name = own | {name: f"{own[name]}\nfrom listed import Heavy"}
        assert foreseen(text, **with_name) == LATE
        for other in ("own/__init__", "own/b", "own/c/__init__", "own/c/d"):
            if other != name:
                assert foreseen(text, **with_name | {other: bad}) == ()


def test_local_modules_in_a_circle(foreseen):
    assert foreseen(BEGINS + "def f(): pass\nimport a", a="import b", b="import a\nimport main")


def test_a_local_module_without_source(foreseen, tmp_path):
    text = BEGINS + "def f():\n    import native"
    write(tmp_path / "own" / "native.so", "")
    assert foreseen(text) == ()


def test_a_module_that_is_not_there_or_is_local(foreseen, tmp_path):
    assert foreseen(BEGINS) == LATE
    (tmp_path / "site-packages" / "listed" / "late.py").unlink()
    assert foreseen(BEGINS) == ()
    assert foreseen(BEGINS, **{"listed/__init__": "", "listed/late": ""}) == ()


@pytest.mark.parametrize("text", ["x = (", "\0", "# coding: nonsense"])
def test_what_cannot_be_read(foreseen, text):
    assert foreseen(BEGINS + "def f():\n    import a", a=text) == ()


def test_no_more_than_takes_a_moment(foreseen, monkeypatch):
    text = BEGINS + "def f():\n    import a"
    assert foreseen(text, a="x = 1\n" * 100) == LATE
    monkeypatch.setattr(later, "LARGEST_PROGRAM", 600)
    assert foreseen(text, a="x = 1\n" * 100) == ()
    assert foreseen(BEGINS + "x = " + "(" * 150 + ")" * 150) == LATE


def test_modules(tmp_path, package):
    package(late="")
    path = [str(tmp_path / "own"), str(tmp_path / "site-packages"), *REST]
    files = {"job/__init__": "import listed", "job/__main__": "from . import a", "job/a": ""}
    files["job/run"] = "def f():\n    from listed import Heavy"
    for name, text in files.items():
        write(tmp_path / "own" / f"{name}.py", text)
    assert read.plan_module("job", path).later == ()
    assert read.plan_module("job.run", path).later == LATE
    write(tmp_path / "own" / "job" / "a.py", "from listed import Heavy")
    assert read.plan_module("job", path).later == LATE
    write(tmp_path / "own" / "job" / "__init__.py", "import listed, os\nos.chdir('/')")
    assert read.plan_module("job", path).later == ()
    assert read.plan_module("job.run", path).later == ()


def test_the_program_itself_may_be_installed(tmp_path, package):
    """It lies where packages lie, but is not on the list."""
    package(late="")
    place = tmp_path / "site-packages" / "job"
    write(place / "__init__.py", "")
    write(place / "__main__.py", BEGINS + "from job import a")
    write(place / "a.py", "")
    path = [str(tmp_path / "own"), str(tmp_path / "site-packages"), *REST]
    assert read.plan_module("job", path).later == LATE
    write(place / "a.py", "import nobody_knows")
    assert read.plan_module("job", path).later == ()
