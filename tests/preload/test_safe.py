"""The list: what is on it does nothing that a fork would not survive; what is not, is refused."""

import importlib.util
import json
import os
import time

import pytest
from listedpackage import listed_package
from sides import ranks, script

import procession
import procession.forkserver
from seams.preload import find, safe
from seams.values import among
from support import require, run_python

INSTALLED = sorted(n for n in safe.packages() if importlib.util.find_spec(n))
# Submodules that do more than their packages, and those that a run of DDP imports late.
DEEPER = [
    "scipy.stats",
    "scipy.linalg",
    "scipy.sparse",
    "sklearn.linear_model",
    "sklearn.datasets",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch.nn.parallel",
    "torch.utils.data",
    "torch.multiprocessing",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch.onnx",
    "torch.distributed.elastic.multiprocessing",
    "torch.distributed.checkpoint",
    "accelerate.utils",
    "transformers.models.auto.modeling_auto",
    "gymnasium.wrappers",
    "huggingface_hub.hf_api",
    "hydra.utils",
]

FEW = ("numpy", "rich", "torch", "yaml")  # the others take long together
# Prints what the import of a module did to its process, and what it read.
PROBE = """
import json, os, signal, sys, warnings

name = sys.argv[1]
reads, before = set(), dict(os.environ)
kind = type(os.environ)
get = kind.__getitem__


def note(self, key):
    reads.add(key)
    return get(self, key)


def handlers():
    return [signal.getsignal(n) for n in signal.valid_signals()]


def opened():
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            pass
    return found


class Asked:  # notes which packages are looked for, and finds nothing
    def find_spec(self, name, path=None, target=None):
        asked.add(name.partition(".")[0])


asked = set()
sys.meta_path.insert(0, Asked())
state = handlers(), list(sys.path), list(sys.meta_path), sys.excepthook, os.getcwd()
descriptors = opened()
kind.__getitem__ = note
with warnings.catch_warnings(record=True) as warned:
    __import__(name)
kind.__getitem__ = get
if before.keys() <= reads:
    reads -= before.keys()  # it went through all, to find those with some prefix
after = handlers(), list(sys.path), list(sys.meta_path), sys.excepthook, os.getcwd()
pid = os.fork()
if not pid:
    np = sys.modules.get("numpy")
    code = 0 if np is None or (np.ones((300, 300)) @ np.ones((300, 300)))[0, 0] == 300 else 1
    os._exit(code)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps({
    "threads": len(os.listdir("/proc/self/task")) - 1,  # after a fork: OpenBLAS's are gone
    "children": open(f"/proc/self/task/{os.getpid()}/children").read(),
    "opened": sorted(opened() - descriptors),
    "code": code,
    "changed": [str(pair) for pair in zip(state, after) if pair[0] != pair[1]],
    "warned": [str(w.message) for w in warned],
    "reads": sorted(reads),
    "set": sorted(n for n in os.environ if os.environ[n] != before.get(n)),
    "removed": sorted(before.keys() - os.environ.keys()),
    "asked": sorted(asked),
}))
"""
# Read by the standard library for itself, or by the interpreter: part of what agents are
# told apart by.
INTERPRETERS = ("PYTHON*", "_PYTHON_*", "LC_*", "LANG*", "PATH", "SETUPTOOLS_USE_DISTUTILS")


# By `torch._dynamo` and transformers, which do not import these.
LOOKED_FOR = ("pandas", "sklearn", "functorch", "timm", "torchvision")


def seen_by(name, tmp_path):
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE)
    result = run_python(probe, name, timeout=120, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "name",
    [n if n in FEW else pytest.param(n, marks=pytest.mark.long) for n in [*INSTALLED, *DEEPER]],
)
@pytest.mark.timeout(180)
def test_an_import_does_nothing_that_a_fork_would_not_survive(name, tmp_path):
    require(name.partition(".")[0])
    verdict = safe.verdict(name)
    assert not verdict.reason
    if any(importlib.util.find_spec(other) for other in verdict.unless):
        pytest.skip(f"one of {verdict.unless} is installed")
    seen = seen_by(name, tmp_path)
    assert seen["threads"] == 0
    assert seen["children"] == ""
    assert seen["opened"] == []
    assert seen["code"] == 0  # a child can work
    # One finder of old names, the last: a program that imports this has it in any case.
    if name.startswith("transformers"):
        seen["changed"] = [each for each in seen["changed"] if "Legacy" not in each]
    assert seen["changed"] == []
    assert seen["warned"] == []
    assert seen["removed"] == []
    assert set(seen["set"]) <= set(verdict.sets)
    # What a local module may not hide.
    asked = {*seen["asked"]} - {name.partition(".")[0], *LOOKED_FOR}
    assert asked & safe.packages() <= {*verdict.needs}
    assert asked.isdisjoint(find._NOBODYS.split())
    known = (*verdict.variables, *verdict.sets, *INTERPRETERS)
    assert [v for v in seen["reads"] if not among(known, v)] == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("jax", "environment"),
        ("jax.numpy", "environment"),
        ("tensorflow", "environment"),
        ("torch_xla", "backend"),
        ("mpi4py.MPI", "MPI"),
        ("cupy", "device"),
        ("pyarrow", "threads"),
        ("h5py", "runs a program"),
        ("matplotlib.pyplot", "directory"),
        ("torch.utils.tensorboard", "TensorFlow"),
        ("torch.utils.tensorboard.writer", "TensorFlow"),
        ("torch.utils.cpp_extension", "sys.path"),
        ("setuptools", "sys.path"),
        ("antigravity", "browser"),
        ("this", "prints"),
        ("tkinter.ttk", "display"),
        ("imp", "warns"),
        ("readline", "terminal"),
        ("test.support", "test"),
        ("nobodys_package", "nothing is known"),
        ("numpy.f2py.__main__", "program"),
        ("", "no name"),
        ("a b", "no name"),
        ("numpy.", "no name"),
        ("..", "no name"),
        ("numpy\0", "no name"),
        ("numpy/../x", "no name"),
    ],
)
def test_not_safe(name, why):
    verdict = safe.verdict(name)
    assert verdict.reason
    assert why in verdict.reason
    assert (verdict.variables, verdict.sets, verdict.unless) == ((), (), ())


STARTS = "import threading as t\nt.Thread(target=t.Event().wait, daemon=True).start()"


@pytest.mark.parametrize("then", ["it is mended", "a day has passed"])
def test_a_listed_package_that_starts_a_thread_after_all_is_left_out_later(
    tmp_path, monkeypatch, caplog, then
):
    source = "import json, listed, os\nseen = {'early': listed.by != os.getpid()}"
    tomorrow = time.time() + 86_401
    with listed_package(tmp_path, monkeypatch) as make:
        init = make() / "__init__.py"
        init.write_text(f"import os\nby = os.getpid()\n{STARTS}")
        program = procession.Script(str(script(tmp_path, source)))
        seen = []
        for _ in range(3):
            if len(seen) == 2:
                if then == "it is mended":
                    init.write_text("import os\nby = os.getpid()\nbetter = True")
                else:
                    monkeypatch.setattr("procession.preload.started.time.time", lambda: tomorrow)
                procession.forkserver.close()
            seen += [(r.early, r.seen["early"]) for r in ranks(program, tmp_path, nproc=1)]
    mended = then == "it is mended"
    assert seen == [(False, False), (True, False), (mended, mended)]
    assert len(caplog.messages) == (1 if mended else 2)
    assert caplog.messages[-1].endswith(
        "importing listed started a thread: each rank gets a fresh interpreter, and nothing is "
        "preloaded; for a day, runs leave out listed and what needs it [P403]"
    )
