"""Scripts and modules, and what is planned for them."""

import importlib.util
import os
import zipfile

import pytest
from preloadprograms import Programs

from procession.preload import imports

pytest.importorskip("torch")
pytest.importorskip("sklearn")


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
    "constants": ("import os\nA = 1\nB, C = 2, (A, -A)\nD: int = A + B\nimport numpy", "os numpy"),
    "names of modules": ("import torch\nnn = torch.nn\nX = nn.ReLU\nimport json", "torch json"),
    "its own exports": (
        "__all__ = ['a']\n__version__ = '1'\n__all__ += ['b']\nimport json",
        "json",
    ),
    "functions": (
        "import torch\ndef f(x: torch.Tensor, *a: int, n=1, **k) -> None:\n  x.y = g()\n"
        "import json",
        "torch json",
    ),
    "classes": (
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n  n: int = 3\n"
        "  def forward(self, x):\n    return x()\nclass Deeper(Net):\n  pass\nimport json",
        "torch torch.nn json",
    ),
    "decorators": (
        "import functools, dataclasses, torch\nfrom dataclasses import field\n"
        "@dataclasses.dataclass(frozen=True)\nclass A:\n  x: list = field(default_factory=list)\n"
        "  @property\n  def p(self): return f()\n  @p.setter\n  def p(self, v): f()\n"
        "  @classmethod\n  def c(cls): f()\n"
        "@functools.lru_cache(maxsize=None)\ndef f(): pass\n"
        "@torch.no_grad()\ndef g(): pass\nimport json",
        "functools dataclasses torch json",
    ),
    "an enumeration": (
        "import enum\nclass E(str, enum.Enum):\n  A = 'a'\n  B = enum.auto()\nX = E.A\nimport json",
        "enum json",
    ),
    "typing": (
        "from typing import *\nimport typing as t\nT = t.TypeVar('T')\nclass P(t.Protocol[T]):\n"
        "  def f(self) -> T: ...\nclass D(t.TypedDict, total=False):\n  a: int\n"
        "Pair = t.Tuple[T, T]\nMaybe = list[int] | None\nimport json",
        "typing json",
    ),
    "a logger": (
        "import logging\nlogger = logging.getLogger(__name__)\nimport numpy",
        "logging numpy",
    ),
    "the environment, read": (
        "import os\nRANK = int(os.environ.get('RANK', '0'))\nA = os.environ['A']\nimport numpy",
        "os numpy",
    ),
    "paths": (
        "import os\nfrom pathlib import Path\nHERE = Path(__file__).resolve().parent / 'data'\n"
        "D = os.path.join(os.path.dirname(__file__), 'x')\nimport numpy",
        "os pathlib numpy",
    ),
    "comprehensions": (
        "A = [x * 2 for x in range(3) if x]\nB = {k: str(k) for k in A}\nimport json",
        "json",
    ),
    "texts": ("A = f'{1}-{2:>3}'\nB = ','.join(['a'])\nC = 'a b'.split()\nimport json", "json"),
    "an assertion": ("import sys\nassert sys.version_info >= (3, 8), f()\nimport json", "sys json"),
    "deleted": ("x = 1\ndel x\nglobal y\nimport json", "json"),
    "only for types": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  import jax\n  f()\nimport json",
        "typing json",
    ),
    "only for types, by a name": (
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n  f()\nimport json",
        "json",
    ),
    "within functions": ("def f():\n  import jax\n  exec('')\nimport json", "json"),
    "lambda": ("f = lambda x, y=1: exec(x)\nimport json", "json"),
}


@pytest.mark.parametrize("name", READ_TO_THE_END)
def test_read_to_the_end(programs, name):
    text, modules = READ_TO_THE_END[name]
    plan = programs.script(text)
    assert plan.stopped_at is None
    assert plan.modules == tuple(modules.split())
    assert plan.skipped == ()


@pytest.mark.parametrize(
    ("text", "modules", "left"),
    [
        ("try:\n  import numpy\nexcept E:\n  numpy = None\nimport torch", "torch", "numpy"),
        (
            "import sys\nif sys.version_info > (3, 11):\n  import csv\nimport json",
            "sys json",
            "csv",
        ),
        ("try:\n  import json\nfinally:\n  import numpy\nimport torch", "torch", "json numpy"),
        ("if __name__ == '__main__':\n  import numpy\nimport json", "json", "numpy"),
        ("try:\n  import numpy\nexcept ImportError:\n  pass\nimport numpy", "numpy", ""),
    ],
)
def test_what_is_imported_under_a_condition_is_left(programs, text, modules, left):
    plan = programs.script(text)
    assert plan.stopped_at is None
    assert plan.modules == tuple(modules.split())
    assert plan.skipped == tuple((n, "it is imported under a condition") for n in left.split())


def test_what_may_be_there_and_is_not(programs):
    text = "try:\n  import PIL.Image\nexcept ImportError:\n  PIL = None\nimport json"
    bare = [p for p in programs.path if "packages" not in p]
    programs(main=text)
    plan = imports.plan_script(str(programs.directory / "main.py"), bare)
    assert plan.stopped_at is None
    assert plan.modules == ("json",)
    plan = programs.script(text.replace("PIL.Image", "nobodys_package"))
    assert "not found" in plan.stopped_at.reason


def test_what_comes_after_the_stop_is_left(programs):
    plan = programs.script("import json\nf(\n  1)\nimport numpy as np\nfrom torch.nn import Module")
    assert plan.modules == ("json",)
    file = str(programs.directory / "main.py")
    assert plan.stopped_at == imports.StoppedAt(file, 2, "f(", "it calls f()")
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
        ("try:\n  import sklearn\nexcept ImportError:\n  pass", "sklearn", "it sets KMP_"),
        ("import os\nA = os.environ.get('A')\nimport sklearn", "sklearn", "it sets KMP_"),
        ("from os import environ as e\nA = e['A']\nimport sklearn", "sklearn", "it sets KMP_"),
        ("from . import x", "", "relative to no package"),
        ("from .x import y", "", "relative to no package"),
    ],
)
def test_an_import_that_is_not_known_to_be_safe_stops(programs, text, name, why):
    if name == "jax" and not importlib.util.find_spec(name):
        why = "not found"
    plan = programs.script(f"import json\n{text}\nimport numpy")
    assert "numpy" not in plan.modules
    assert plan.stopped_at is not None
    assert why in plan.stopped_at.reason
    if name:
        assert why in dict(plan.skipped)[name]
    assert dict(plan.skipped)["numpy"].startswith("it comes after main.py:")


def test_once_it_is_imported_a_package_may_be_conditional(programs):
    plan = programs.script("import sklearn\nif a:\n  import sklearn.svm\nimport json")
    assert plan.modules == ("sklearn", "json")


def test_local_modules_are_read_at_their_place(programs):
    plan = programs.script(
        "import json\nfrom model import Net\nimport numpy\nimport package.deep.leaf",
        **{
            "model": "import torch\nfrom helper import *\nclass Net(torch.nn.Module): pass",
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
    assert at.source == "os.environ['OMP_NUM_THREADS'] = '1'"
    assert dict(plan.skipped) == {
        "torch": "it comes after settings.py:3",
        "package.settings": "it comes after settings.py:3",
        "numpy": "it comes after settings.py:3",
    }


def test_a_local_module_does_not_run_what_is_for_the_main_program(programs):
    plan = programs.script(
        "import local\nimport json", local="if __name__ == '__main__':\n  f()\nimport glob"
    )
    assert plan.modules == ("glob", "json")
    assert programs.script("if __name__ == '__main__':\n  f()\nimport json").modules == ()


def test_circles_of_local_modules(programs):
    plan = programs.script(
        "import a\nimport json",
        a="import b\nimport csv",
        b="import a\nfrom a import x\nimport glob",
    )
    assert plan.modules == ("glob", "csv", "json")


def test_a_local_module_is_read_again_when_it_is_sure(programs):
    plan = programs.script(
        "try:\n  import a\nexcept ImportError:\n  pass\nimport json\nimport a", a="import glob"
    )
    assert plan.modules == ("json", "glob")


@pytest.mark.parametrize("name", ["numpy", "json", "typing_extensions"])
def test_a_local_module_in_the_place_of_another(programs, name):
    plan = programs.script("import torch", **{name: "import os"})
    assert plan.modules == ()
    assert plan.stopped_at.file == str(programs.directory / f"{name}.py")
    assert name in plan.stopped_at.reason


def test_a_local_module_without_source(programs):
    programs.directory.mkdir()
    (programs.directory / "fast.so").touch()
    plan = programs.script("import json\nimport fast\nimport glob")
    assert plan.modules == ("json",)
    assert "no source" in plan.stopped_at.reason


def test_a_namespace_package(programs):
    plan = programs.script("import space.inner\nimport json", **{"space/inner": "import glob"})
    assert plan.modules == ("glob", "json")


def test_a_package_that_imports_what_is_not_safe_if_it_is_there(programs, tmp_path):
    site = Programs(tmp_path / "site-packages")
    site(**{"pandas/__init__": "1/0"})
    plan = imports.plan_script
    programs(main="import pandas")
    path = [programs.path[0], str(site.directory), *programs.path[1:]]
    main = str(programs.directory / "main.py")
    assert plan(main, path).modules == ("pandas",)
    site(pyarrow="")
    assert plan(main, path).modules == ()
    assert "pyarrow" in plan(main, path).stopped_at.reason


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
    assert plan.stopped_at.line == 4
    assert programs.module("package").modules == ("json", "glob", "csv")
    assert programs.module("alone").modules == ("shlex",)


def test_modules_of_installed_packages(programs, tmp_path):
    site = Programs(tmp_path / "site-packages")
    site(
        **{
            "tool/__init__": "import json",
            "tool/cli": "import numpy\nfrom tool import more",
            "tool/more": "import glob",
        }
    )
    path = [*programs.path, str(site.directory)]
    assert imports.plan_module("tool.cli", path).modules == ("json", "numpy", "glob")
    assert imports.plan_module("torch.distributed.run", path).modules[:2] == (
        "torch",
        "torch.distributed",
    )
    assert imports.plan_module("json.tool", path).modules[:2] == ("json", "argparse")


@pytest.mark.parametrize("name", ["", ".", "nowhere", "sys", "os", "a..b", "torch._C", "x.y", "\0"])
def test_modules_that_cannot_be_run(programs, name):
    plan = imports.plan_module(name, programs.path)
    assert plan.stopped_at is not None or name == "os"


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
        tmp_path: "directory",
        fifo: "no file",
        large: "larger",
        binary: "no text",
        archive: "no text",
        compiled: "compiled",
        "\0": "cannot be read",
        "/dev/zero": "no file",
    }.items():
        plan = imports.plan_script(str(path), programs.path)
        assert plan.modules == ()
        assert why in plan.stopped_at.reason, path
        assert why in imports.explain(plan)


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
    plan = imports.plan_script(str(script), programs.path)
    assert plan.stopped_at is not None
    assert plan.modules in ((), ("json",))


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"# coding: latin-1\n# M\xfcller\n", b"\f\r\n"])
def test_encodings(programs, start):
    programs.directory.mkdir()
    script = programs.directory / "main.py"
    script.write_bytes(start + b"import json\r\nf()\r\n")
    plan = imports.plan_script(str(script), programs.path)
    assert plan.modules == ("json",)
    assert plan.stopped_at.source == "f()"


def test_text_that_warns_when_it_is_parsed(programs):
    assert programs.script("x = '\\d'\nimport json").modules == ("json",)


def test_many_files(programs):
    files = {f"m{i}": f"import m{i + 1}" for i in range(300)}
    plan = programs.script("import m0\nimport json", **files)
    assert "too many" in plan.stopped_at.reason or "deep" in plan.stopped_at.reason


def test_variables(programs):
    plan = programs.script("import numpy")
    assert {"NPY_*", "OPENBLAS_*"} <= set(plan.variables)
    assert programs.script("import os").variables == ()


def test_explained(programs, monkeypatch):
    monkeypatch.chdir(programs.directory.parent)
    pytest.importorskip("jax")
    plan = programs.script("import json\nimport torch.nn\nimport jax\nimport numpy")
    assert imports.explain(plan) == "\n".join(
        [
            "preloaded, in this order:",
            "  json",
            "  torch, torch.nn",
            "left to the ranks:",
            "  jax: it reads the environment of its rank when it is imported",
            "  numpy: it comes after main.py:3",
            "read up to program/main.py:3: jax: it reads the environment of its rank when it is "
            "imported",
            "  import jax",
        ]
    )
    assert imports.explain(programs.script("")) == "preloaded: nothing"
