"""What ranks of a function will import of what their launcher has loaded."""

import json
import sys

import pytest
from preloadprograms import Programs

from seams.preload import plan_function, safe
from support import require, run_python

require("torch", "sklearn")


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path / "program")


def planned(tmp_path, code, call, **modules):
    """Give the plan of `call`, made in a launcher that has run `code`: modules, skipped."""
    for name, source in modules.items():
        (tmp_path / f"{name}.py").write_text(source)
    script = tmp_path / "launcher.py"
    script.write_text(
        f"import json, sys\n{code}\n"
        "from procession.prepare.payload import Payload\n"
        "from procession.preload.read import plan_function\n"
        "from procession.values.spec import make_spec\n"
        f"payload = Payload()\n"
        f"payload.make(make_spec({call}))\n"
        "plan = plan_function(payload.modules, payload.functions, sys.modules, sys.path)\n"
        "payload.close()\n"
        "print(json.dumps([plan.modules, plan.skipped, plan.stopped_at]))\n"
    )
    result = run_python(script, timeout=60)
    assert result.returncode == 0, result.stderr
    modules, skipped, stopped_at = json.loads(result.stdout)
    assert stopped_at is None
    return [n for n in modules if n.partition(".")[0] not in sys.stdlib_module_names], dict(skipped)


@pytest.mark.parametrize(
    ("code", "call", "modules"),
    [
        ("import numpy\nf = lambda: 1", "f, nproc=1", ""),
        ("import numpy\ndef f():\n    import numpy", "f, nproc=1", "numpy"),
        ("import numpy\ndef g():\n    import numpy\nf = lambda: g()", "f, nproc=1", "numpy"),
        ("import torch\nfrom torch import nn\nf = lambda: nn", "f, nproc=1", "torch torch.nn"),
        ("import numpy, os\nf = lambda x: 1", "f, nproc=1, args=([numpy.ones(1)],)", "numpy"),
        ("import numpy, os\nf = os.getpid", "f, nproc=1", ""),
        ("import functools, numpy\ndef g(x):\n    numpy\nf = functools.partial(g, 1)",
         "f, nproc=1", "numpy"),
        ("import mine", "mine.f, nproc=1", "numpy"),
        ("import deep", "deep.f, nproc=1", "numpy"),
        ("import numpy.linalg, late", "late.f, nproc=1", "numpy numpy.linalg"),
        ("import mine\nf = lambda: mine.f()", "f, nproc=1", "numpy"),
        ("import mine\nf = lambda: 1", "f, nproc=1", ""),
    ],
)  # fmt: skip
def test_what_the_function_and_its_arguments_name(tmp_path, code, call, modules):
    found, skipped = planned(
        tmp_path,
        code,
        call,
        mine="import numpy\ndef f(): pass",
        deep="from mine import f as g\ndef f(): pass",
        late="def f():\n    def inner():\n        import numpy.linalg",
    )
    assert set(modules.split()) <= set(found)
    tops = {name.partition(".")[0] for name in found} - {"cloudpickle"}  # what travels by value
    assert tops == {name.partition(".")[0] for name in modules.split()}
    for name in found:
        if package := name.rpartition(".")[0]:
            assert found.index(package) < found.index(name)
    assert not skipped


def test_what_is_not_safe_is_left_to_the_ranks(tmp_path):
    require("jax")
    code = "import jax, numpy\ndef f():\n    return jax, numpy"
    modules, skipped = planned(tmp_path, code, "f, nproc=1")
    assert [name for name in modules if "." not in name] == ["numpy", "cloudpickle"]
    assert "environment" in skipped["jax"]
    assert {name.partition(".")[0] for name in modules} <= safe.packages()


def test_a_launcher_with_a_local_numpy(programs):
    programs(numpy="")
    plan = plan_function(["torch"], [], {"torch": None}, programs.path)
    assert plan.modules == ()
    assert "hides the module numpy" in dict(plan.skipped)["torch"]
