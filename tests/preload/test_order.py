"""Plans of real programs, compared with what Python itself imports when it runs them."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
from preloadprograms import REST, Programs

from procession.preload import imports, safe
from support import run_python

EXAMPLES = Path(__file__).parents[2] / "examples"
pytest.importorskip("torch")
pytest.importorskip("sklearn")


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path / "program")


@pytest.mark.parametrize(
    ("name", "modules", "reason"),
    [
        ("digits", "argparse hashlib os socket time numpy sklearn sklearn.datasets", "main()"),
        ("jax_psum", "os", "change an object"),
        ("return_values", "os random procession", "procession.run()"),
        ("torch_ddp", "hashlib torch torch.distributed torch.distributed.nn torch.nn "
         "torch.nn.parallel", "main()"),
    ],
)  # fmt: skip
def test_the_examples(name, modules, reason):
    source = str(Path(importlib.util.find_spec("procession").origin).parents[1])
    path = [str(EXAMPLES), *REST, source]
    plan = imports.plan_script(str(EXAMPLES / f"{name}.py"), path)
    assert plan.modules == tuple(modules.split())
    assert reason in plan.stopped_at.reason


# Prints which of the modules named on standard input have been imported, in the order in which
# their imports began.
RECORDER = """
import json, runpy, sys

wanted, began = json.loads(sys.stdin.read()), []


class Recorder:
    def find_spec(self, name, path=None, target=None):
        began.append(name)


sys.meta_path.insert(0, Recorder())
sys.argv = sys.argv[1:]
sys.path[0] = sys.argv[0].rpartition("/")[0]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print(json.dumps([n for n in dict.fromkeys(began) if n in wanted]))
"""

REAL = {
    "training": "import csv\nimport torch\nfrom torch import nn\nimport numpy as np\n"
    "from torch.utils.data import DataLoader, Dataset\nimport torch.distributed as dist\n"
    "from sklearn import datasets\nclass Net(nn.Module): pass\n",
    "data first": "import numpy as np, shlex\nfrom scipy import stats\nimport torch.nn\n",
    "local": "from model import Net\nfrom data import load\nimport torch.optim as optim\n",
    "submodules": "import torch.distributed.fsdp\nfrom torch.distributed import tensor\n"
    "from torch.utils import checkpoint, data\nimport xml.etree.ElementTree\n",
}
LOCAL = {
    "model": "import sched\nimport torch\nfrom shapes import N\nclass Net(torch.nn.Module): n = N",
    "shapes": "import numpy\nN = 3",
    "data": "import sklearn.datasets\ndef load(): pass",
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", REAL)
def test_the_plan_has_the_order_in_which_python_imports(programs, tmp_path, name):
    plan = programs.script(REAL[name], **LOCAL)
    assert plan.stopped_at is None
    recorder = tmp_path / "recorder.py"
    recorder.write_text(RECORDER)
    main = programs.directory / "main.py"
    result = run_python(recorder, main, input=json.dumps(plan.modules), timeout=120)
    assert result.returncode == 0, result.stderr
    cold = json.loads(result.stdout.splitlines()[-1])
    planned = [n for n in plan.modules if n in cold]
    # What the recorder itself had imported is not seen; submodules begin when packages want them.
    assert [n for n in planned if "." not in n] == [n for n in cold if "." not in n]
    assert len(planned) >= 5 or name == "data first"
    # Imported in the planned order by themselves, they begin in the order of the program.
    code = "".join(f"import {n}\n" for n in plan.modules)
    alone = programs.directory / "alone.py"
    alone.write_text(code)
    result = run_python(recorder, alone, input=json.dumps(plan.modules), timeout=120)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1]) == cold


def test_functions_have_what_the_launcher_has_loaded(tmp_path):
    script = tmp_path / "launcher.py"
    script.write_text(
        "import sys, json, numpy, sklearn.datasets, torch, jax, hypothesis\n"
        "from procession.preload import imports\n"
        "plan = imports.plan_function(sys.modules, sys.path)\n"
        "print(json.dumps([plan.modules, plan.skipped, plan.stopped_at]))\n"
    )
    pytest.importorskip("jax")
    result = run_python(script, timeout=60)
    modules, skipped, stopped_at = json.loads(result.stdout)
    assert stopped_at is None
    assert modules.index("numpy") < modules.index("sklearn") < modules.index("torch")
    assert {"numpy.linalg", "sklearn.datasets", "torch.nn.functional"} <= set(modules)
    tops = {name.partition(".")[0] for name in modules}
    assert tops <= safe.packages() - {"procession"}
    assert not tops & sys.stdlib_module_names
    for name in modules:
        package = name.rpartition(".")[0]
        assert not package or modules.index(package) < modules.index(name)
    assert "environment" in dict(skipped)["jax"]
    assert "hypothesis" in dict(skipped)
    # All of it can be imported elsewhere, in this order.
    code = "import json, sys\nfor name in json.load(sys.stdin): __import__(name)"
    assert run_python("-c", code, input=json.dumps(modules), timeout=60).returncode == 0


def test_functions_of_a_launcher_with_a_local_numpy(programs):
    programs(numpy="")
    plan = imports.plan_function(dict(sys.modules), programs.path)
    assert plan.modules == ()
    assert plan.stopped_at.file == str(programs.directory / "numpy.py")


def test_functions_of_a_launcher_with_something_of_a_packages_name(programs):
    fake = type(os)("numpy")
    assert imports.plan_function({"numpy": fake, "torch": None}, programs.path).modules == ()
    assert imports.plan_function({}, programs.path) == imports.Plan()
