"""Scripts and modules, and what is planned for them."""

import importlib.util
import os
import zipfile

import pytest
from preloadprograms import Programs

from seams.preload import StoppedAt, explain, read
from support import require

require("torch", "sklearn")


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path / "program")


READ_TO_THE_END = {
    "nothing": ("", ""),
    "a docstring": ('"""What it does."""', ""),
    "plain": ("import numpy", "numpy"),
    "with another name": ("import numpy as np", "numpy"),
    "several": ("import os, sys, numpy", "os sys numpy"),
    "a submodule": ("import torch.nn.functional as F", "torch torch.nn torch.nn.functional"),
    "from": ("from torch.nn import Module", "torch torch.nn"),
    "from, of a submodule": ("from torch import nn, optim", "torch torch.nn torch.optim"),
    "from, of something else": ("from torch import Tensor, float32", "torch"),
    "from a module": ("from os import path, environ", "os"),
    "os.path": ("import os.path as p", "os os.path"),
    "the program's order": ("import torch\nimport json\nimport numpy", "torch json numpy"),
    "each once": ("import numpy\nfrom numpy import pi\nimport numpy as np", "numpy"),
    "the future": ("from __future__ import annotations\nimport numpy", "numpy"),
    "a cookie": ("# -*- coding: latin-1 -*-\nname = 'M\\xfcller'\nimport numpy", "numpy"),
    "literals": (
        "A = 1\nB, C = 2, (3, -4)\nD = E = {'a': [1 << 20, 'b' * 2], 'c': {None}}\nimport numpy",
        "numpy",
    ),
    "what it says of itself": ("__all__ = ['a']\n__version__ = '1'\nimport json", "json"),
    "pass": ("pass\nimport json", "json"),
    "a star": ("from typing import *\nimport json", "typing json"),
}


@pytest.mark.parametrize("name", READ_TO_THE_END)
def test_read_to_the_end(programs, name):
    text, modules = READ_TO_THE_END[name]
    plan = programs.script(text)
    assert plan.stopped_at is None
    assert plan.modules == tuple(modules.split())
    assert plan.skipped == ()


PASSED_OVER = {
    "a function": "def f(x=torch.float32) -> torch.Tensor: g()",
    "a coroutine": "async def f(): g()",
    "a class": "class Net(torch.nn.Module):\n  size = 3\n  def f(self): g()",
    "a data class": "@dataclass(frozen=True)\nclass C:\n  x: list = field(default_factory=list)",
    "a decorator": "@torch.no_grad()\ndef f(): pass",
    "a lambda": "f = lambda: g()",
    "a name": "X = torch.nn",
    "a logger": "logger = logging.getLogger(__name__)",
    "a variable that is read": "X = os.environ.get('X', 'y')",
    "an annotation": "x: int = 3",
    "more exports": "__all__ += ['b']",
    "an assertion": "assert 1",
    "a condition": "if sys.version_info < (3, 1):\n  raise RuntimeError\nelse:\n  X = 1",
}


@pytest.mark.parametrize("name", PASSED_OVER)
def test_reading_goes_on_after_what_runs_nothing(programs, name):
    plan = programs.script(f"import torch\n{PASSED_OVER[name]}\nimport json")
    assert plan.modules == ("torch", "json")
    assert plan.stopped_at is None


@pytest.mark.parametrize(
    ("text", "modules", "left"),
    [
        ("try:\n  import numpy\nexcept E:\n  import csv\nimport torch", "numpy torch", "csv"),
        ("try:\n  import json\nfinally:\n  import numpy\nimport torch", "json torch", "numpy"),
        ("if A:\n  import json\nelse:\n  import numpy\nimport torch", "torch", "json numpy"),
        ("if A:\n  import numpy\nimport numpy", "numpy", ""),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  import csv", "typing", "csv"),
    ],
)
def test_what_is_imported_under_a_condition_is_left(programs, text, modules, left):
    plan = programs.script(text)
    assert plan.stopped_at is None
    assert plan.modules == tuple(modules.split())
    assert plan.skipped == tuple((n, "it is imported under a condition") for n in left.split())


def test_what_comes_after_the_stop_is_left(programs):
    plan = programs.script("import json\nf(\n  1)\nimport numpy as np\nfrom torch.nn import Module")
    assert plan.modules == ("json",)
    file = str(programs.directory / "main.py")
    assert plan.stopped_at == StoppedAt(file, 2, "it may change what an import sees")
    assert plan.skipped == tuple((n, "it comes after main.py:2") for n in ("numpy", "torch.nn"))


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        ("import jax", "jax", "environment"),
        ("import torch_xla.core", "torch_xla", "not found"),
        ("import nobodys_package", "nobodys_package", "not found"),
        ("import hypothesis", "hypothesis", "nothing is known"),
        ("import torch.utils.tensorboard", "torch.utils.tensorboard", "TensorFlow"),
        ("from torch.utils import tensorboard", "torch.utils.tensorboard", "TensorFlow"),
        ("import torch.nowhere", "torch.nowhere", "not found"),
        ("import antigravity", "antigravity", "browser"),
        ("try:\n  import jax\nexcept ImportError:\n  pass", "jax", "environment"),
    ],
)
def test_an_import_that_is_not_known_to_be_safe_is_passed_over(programs, text, name, why):
    if name == "jax" and not importlib.util.find_spec(name):
        why = "not found"
    plan = programs.script(f"import json\n{text}\nimport numpy")
    assert plan.stopped_at is None
    assert plan.modules[-1] == "numpy"
    assert why in dict(plan.skipped)[name]


@pytest.mark.parametrize(
    ("name", "why"),
    [("mpi4py.MPI", "MPI"), ("unsloth", "after it"), ("isaacgym", "after torch"),
     ("torch_npu", "backend")],
)  # fmt: skip
def test_at_a_package_that_must_come_first_the_reading_ends(programs, tmp_path, name, why):
    site = Programs(tmp_path / "site-packages")
    site(**{f"{name.partition('.')[0]}/__init__": "1/0"})
    programs(main=f"import json\ntry:\n  import {name}\nexcept E: pass\nimport torch")
    main = str(programs.directory / "main.py")
    plan = read.plan_script(main, [*programs.path, str(site.directory)])
    assert plan.modules == ("json",)
    assert why in plan.stopped_at.reason
    assert read.plan_script(main, programs.path).modules == ("json", "torch")  # it is not there


def test_local_modules_are_read_at_their_place(programs):
    plan = programs.script(
        "import json\nfrom model import Net\nimport numpy\nimport package.deep.leaf",
        **{
            "model": "import torch\nfrom helper import *\nNet = 1",
            "helper": "import random\nvalue = 3",
            "package/__init__": "from . import first",
            "package/first": "import csv",
            "package/deep/__init__": "from ..second import thing",
            "package/second": "import glob\nthing = 1",
            "package/deep/leaf": "from package import first as f\nfrom . import sibling",
            "package/deep/sibling": "import shlex",
        },
    )
    assert plan.stopped_at is None
    assert plan.modules == ("json", "torch", "random", "numpy", "csv", "glob", "shlex")


def test_a_local_module_that_changes_something_stops(programs):
    plan = programs.script(
        "import json\nimport package.settings\nimport numpy",
        **{
            "package/__init__": "import glob",
            "package/settings": "import os\n\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch",
        },
    )
    assert plan.modules == ("json", "glob", "os")
    at = plan.stopped_at
    assert (os.path.basename(at.file), at.line) == ("settings.py", 3)
    assert dict(plan.skipped) == {
        "torch": "it comes after settings.py:3",
        "package.settings": "it comes after settings.py:3",
        "numpy": "it comes after settings.py:3",
    }


def test_circles_of_local_modules(programs):
    plan = programs.script(
        "import a\nimport json",
        a="import b\nimport csv",
        b="import a\nfrom a import x\nimport glob",
    )
    assert plan.modules == ("glob", "csv", "json")


def test_no_more_is_read_than_takes_a_moment(programs):
    files = {f"m{i}": f"import csv\nx = '{'x' * 99_999}'" for i in range(3)}
    plan = programs.script("import torch, m0, m1, m2, json", **files)
    assert plan.modules == ("torch", "csv")
    assert "256 KiB" in plan.stopped_at.reason


@pytest.mark.parametrize("name", ["numpy", "json", "typing_extensions"])
def test_a_local_module_in_the_place_of_another(programs, name):
    plan = programs.script("import torch, tqdm.std", **{name: "import os"})
    assert "torch" not in plan.modules
    file = programs.directory / f"{name}.py"
    assert dict(plan.skipped)["torch"] == f"{file} hides the module {name}, which it may import"


def test_a_package_that_imports_what_is_not_safe_if_it_is_there(programs, tmp_path):
    site = Programs(tmp_path / "site-packages")
    site(**{"pandas/__init__": "1/0"})
    plan = read.plan_script
    programs(main="import pandas")
    path = [programs.path[0], str(site.directory), *programs.path[1:]]
    main = str(programs.directory / "main.py")
    assert plan(main, path).modules == ("pandas",)
    site(pyarrow="")
    programs(main="import pandas\nimport torch")
    assert plan(main, path).modules == ("torch",)
    assert "pyarrow" in dict(plan(main, path).skipped)["pandas"]


def test_modules(programs):
    files = {
        "package/__init__": "import json",
        "package/train": "import torch\nfrom .data import x\nif __name__ == '__main__':\n  f()",
        "package/data": "import glob\nx = 1",
        "package/__main__": "from package import data\nimport csv",
        "alone": "import shlex",
    }
    plan = programs.module("package.train", **files)
    assert plan.modules == ("json", "torch", "glob")
    assert plan.stopped_at.line == 3
    assert programs.module("package").modules == ("json", "glob", "csv")
    assert programs.module("alone").modules == ("shlex",)


def test_what_cannot_be_read(programs, tmp_path):
    fifo, large, binary = tmp_path / "fifo", tmp_path / "large.py", tmp_path / "binary.py"
    os.mkfifo(fifo)
    large.write_text("import json\n" + "#" * (1 << 20))
    binary.write_bytes(b"\x7fELF\0\0")
    archive = tmp_path / "app.pyz"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("__main__.py", "import json")
    compiled = tmp_path / "main.pyc"
    compiled.write_bytes(b"import json")
    for path, why in {
        tmp_path / "gone.py": "No such file",
        tmp_path: "a directory",
        fifo: "no file",
        large: "larger",
        binary: "no text",
        archive: "no text",
        compiled: "compiled",
        "\0": "cannot be read",
        "/dev/zero": "no file",
    }.items():
        plan = read.plan_script(str(path), programs.path)
        assert plan.modules == ()
        assert why in plan.stopped_at.reason, path
        assert why in "\n".join(explain(plan))


@pytest.mark.parametrize(
    "source",
    [
        b"import json\nx = (",
        b"import json\n\x00",
        b"# coding: nonsense\nimport json",
        b"# coding: rot13\nvzcbeg wfba",
        b"import json\n\xff",
        b"\xff\xfeimport json",
        b"import json\n" + b"(" * 5000,
        b"import json\nx = " + b"-" * 100000 + b"1",
        b"import json\nx = " + b"+".join([b"1"] * 20000),
        b"import json\n\tx = 1",
        b"print 'two'",
        b"import json\nx = " + b".".join([b"a"] * 20000),
    ],
    ids=str,
)
def test_what_cannot_be_parsed(programs, source):
    programs.directory.mkdir()
    script = programs.directory / "main.py"
    script.write_bytes(source)
    plan = read.plan_script(str(script), programs.path)
    assert plan.stopped_at is not None
    assert plan.modules in ((), ("json",))
