"""The names of the original, where its users look for them."""

import inspect
import logging
import multiprocessing
import queue
import subprocess
import sys

import pytest
from facesupport import tidy  # noqa: F401

import procession.multiprocessing as mp
from support import PYTHON, run_python, write

SPAWN = {
    "fn": inspect.Parameter.empty,
    "args": (),
    "nprocs": 1,
    "join": True,
    "daemon": False,
    "start_method": "spawn",
}
NAMES = (
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
)


def defaults(call):
    return {p.name: p.default for p in inspect.signature(call).parameters.values()}


@pytest.mark.parametrize("call", [mp.spawn, mp.start_processes])
def test_parameters(call):
    assert defaults(call) == SPAWN


def test_parameters_of_the_rest():
    assert defaults(mp.ProcessContext.join) == {
        "self": inspect.Parameter.empty,
        "timeout": None,
        "grace_period": None,
    }
    for made in (mp.ProcessContext, mp.SpawnContext):
        assert list(defaults(made)) == ["processes", "error_files"]
    first = ["msg", "error_index", "error_pid"]
    assert list(defaults(mp.ProcessException)) == first
    assert list(defaults(mp.ProcessRaisedException)) == first
    assert list(defaults(mp.ProcessExitedException)) == [*first, "exit_code", "signal_name"]
    assert defaults(mp.ProcessExitedException)["signal_name"] is None


def test_the_module_named_spawn_has_the_same():
    module = sys.modules["procession.multiprocessing.spawn"]
    assert sorted(module.__all__) == sorted(NAMES)
    for name in NAMES:
        assert getattr(module, name) is getattr(mp, name)
    assert module.ENV_VAR_PARALLEL_START == mp.ENV_VAR_PARALLEL_START
    assert module.log is logging.getLogger("procession.multiprocessing.spawn")


def test_import_from_the_module_named_spawn():
    from procession.multiprocessing.spawn import ProcessRaisedException, spawn

    assert spawn is mp.spawn
    assert ProcessRaisedException is mp.ProcessRaisedException


@pytest.mark.torch
def test_the_same_names_as_torch():
    code = """
        import inspect, sys
        import torch.multiprocessing as theirs
        import procession.multiprocessing as ours
        a, b = sys.modules["torch.multiprocessing.spawn"], sys.modules[ours.__name__ + ".spawn"]
        assert sorted(a.__all__) == sorted(b.__all__), (a.__all__, b.__all__)
        for name in a.__all__:
            assert inspect.isclass(getattr(a, name)) == inspect.isclass(getattr(b, name))
            if name.endswith("Exception") or not inspect.isclass(getattr(a, name)):
                called = [inspect.signature(getattr(m, name)).parameters.values() for m in (a, b)]
                mine, other = [[(p.name, p.default) for p in each] for each in called]
                assert mine == other, (name, mine, other)
        missing = [n for n in dir(theirs) if not n.startswith("_") and not hasattr(ours, n)]
        assert missing == [], missing
        assert ours.Queue == theirs.Queue
        assert ours.set_sharing_strategy is theirs.set_sharing_strategy
        assert ours.spawn is not theirs.spawn
        # The original's imports, and how its processes are started and tell their errors.
        left_out = {"ThreadPoolExecutor", "as_completed", "os", "pickle", "sys", "tempfile", "time",
                    "_prctl_pr_set_pdeathsig", "_wrap"}
        assert {n for n in dir(a) if not hasattr(b, n)} <= left_out
        """
    done = subprocess.run(
        [PYTHON, "-c", inspect.cleandoc(code)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_rest_is_that_of_multiprocessing():
    assert mp.get_context("spawn") is multiprocessing.get_context("spawn")
    assert mp.TimeoutError is multiprocessing.TimeoutError
    assert mp.Queue == multiprocessing.Queue
    for name in ("no_such_name", "_no_such_name"):
        with pytest.raises(AttributeError, match=f"procession.multiprocessing.* {name!r}"):
            getattr(mp, name)


def test_the_standard_library_is_not_hidden(tmp_path):
    """The package has the name of a module of the standard library, which it needs itself."""
    script = write(
        tmp_path / "main.py",
        """
        import sys
        import procession.multiprocessing
        import multiprocessing
        assert multiprocessing.__file__ != procession.multiprocessing.__file__
        assert "procession" not in multiprocessing.__file__
        assert not {"torch", "numpy", "cloudpickle", "psutil"} & set(sys.modules)
        print("all is well")
        """,
    )
    done = run_python(script)
    assert (done.stdout, done.stderr) == ("all is well\n", "")
    assert queue.Queue.__module__ == "queue"
