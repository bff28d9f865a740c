"""Plans of real programs, compared with what Python itself imports when it runs them."""

import json

import pytest
from preloadprograms import Programs

from support import require, run_python

require("torch", "sklearn")


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path / "program")


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
    "from sklearn import datasets\nN = 3\n",
    "data first": "import numpy as np, shlex\nfrom scipy import stats\nimport torch.nn\n",
    "local": "from model import Net\nfrom data import load\nimport torch.optim as optim\n",
    "submodules": "import torch.distributed.fsdp\nfrom torch.distributed import tensor\n"
    "from torch.utils import checkpoint, data\nimport xml.etree.ElementTree\n",
}
LOCAL = {
    "model": "import sched\nimport torch\nfrom shapes import N\nNet = 1",
    "shapes": "import numpy\nN = 3",
    "data": "import sklearn.datasets\nload = 2",
}


@pytest.mark.timeout(180)
@pytest.mark.long
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
    assert len(planned) >= (1 if name == "data first" else 5)
    # Imported in the planned order by themselves, they begin in the order of the program.
    code = "".join(f"import {n}\n" for n in plan.modules)
    alone = programs.directory / "alone.py"
    alone.write_text(code)
    result = run_python(recorder, alone, input=json.dumps(plan.modules), timeout=120)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1]) == cold
