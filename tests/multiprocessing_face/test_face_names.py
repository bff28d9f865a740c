"""The names of the original, where its users look for them."""

import inspect
import logging
import sys

import pytest
from facesupport import tidy  # noqa: F401

import procession.multiprocessing as mp
from support import run_python, write


def test_the_module_named_spawn_has_the_same():
    module = sys.modules["procession.multiprocessing.spawn"]
    for name in module.__all__:
        assert getattr(module, name) is getattr(mp, name)
    assert module.ENV_VAR_PARALLEL_START == mp.ENV_VAR_PARALLEL_START
    assert module.log is logging.getLogger("procession.multiprocessing.spawn")


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
    done = run_python("-c", inspect.cleandoc(code), timeout=50)
    assert (done.returncode, done.stderr) == (0, "")


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
