"""`procession.adopt` in one process: whoever imports what and when."""

import pytest
from standintorch import make

from support import run_python, write

pytestmark = pytest.mark.timeout(170)  # seconds at most, where nothing else runs


def run(tmp_path, source, *words, **options):
    script = write(make(tmp_path) / "main.py", source)
    done = run_python(script, *words, timeout=150, cwd=tmp_path, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.parametrize("when", ["before torch", "after torch"])
def test_the_order_of_imports_does_not_matter(tmp_path, when):
    """Also names that were taken from torch's modules before are ours."""
    source = """
        import inspect, os, signal, sys
        import procession

        if sys.argv[1] == "before torch":
            procession.adopt()
            assert "torch" not in sys.modules
        import torch.distributed
        from torch.multiprocessing import spawn, start_processes, ProcessRaisedException
        from torch.distributed.elastic.multiprocessing import start_processes as elastic
        if sys.argv[1] == "after torch":
            assert spawn(None, nprocs=3) == ("torch's start_processes", 3)
            procession.adopt()

        def fail(rank, word):
            if rank == 1:
                raise ValueError(word)

        def leave(rank):
            os.kill(os.getpid(), signal.SIGKILL)

        assert spawn(lambda rank: None, nprocs=2) is None
        try:
            start_processes(fail, ("this one",), 2, start_method="fork")
        except ProcessRaisedException as e:
            assert "ValueError: this one" in str(e)
            assert e.error_index == 1
        else:
            raise AssertionError("nothing was raised")
        context = start_processes(leave, nprocs=1, join=False, start_method="forkserver")
        try:
            context.join()
        except torch.multiprocessing.ProcessExitedException as e:
            assert (e.exit_code, e.signal_name) == (-9, "SIGKILL")
        else:
            raise AssertionError("nothing was raised")
        logs = procession.elastic.DefaultLogsSpecs("logs")
        ranks = elastic("", max, {0: (1, 2), 1: (4, 3)}, {0: {}, 1: {}}, logs)
        assert ranks.wait().return_values == {0: 2, 1: 4}

        # Who looks at torch's functions and modules sees what was there.
        assert [*inspect.signature(start_processes).parameters][:3] == ["fn", "args", "nprocs"]
        loader = type(sys.modules["torch.multiprocessing.spawn"].__loader__).__name__
        assert loader == "SourceFileLoader", loader
        assert start_processes.__module__ == "torch.multiprocessing.spawn"
    """
    run(tmp_path, source, when)


def test_children_find_it_in_their_environment(tmp_path):
    source = """
        import os
        import procession

        procession.adopt(children=True)
        procession.adopt(children=True)
        assert os.environ["PROCESSION_ADOPT"] == str(os.getpid())
        assert os.environ["PYTHONPATH"].count("startup") == 1
        from torch.multiprocessing import spawn
        assert spawn(lambda rank: None) is None
    """
    run(tmp_path, source)


def test_a_torch_that_is_otherwise_stays_as_it_is(tmp_path):
    source = """
        import procession
        procession.adopt()
        from torch.multiprocessing import start_processes
        assert start_processes(None, nprocs=4) == "another torch"
    """
    make(tmp_path)
    write(
        tmp_path / "torch/multiprocessing/spawn.py",
        """
        ProcessContext = ProcessExitedException = ProcessRaisedException = spawn = None

        def wrapped(function):
            return lambda *args, **kwargs: function(*args, **kwargs)

        @wrapped
        def start_processes(fn, nprocs=1):
            return "another torch"
        """,
    )
    script = write(tmp_path / "main.py", source)
    done = run_python(script, timeout=150, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "torch.multiprocessing.spawn.start_processes of this torch" in done.stderr


def test_what_is_given_and_raised_is_torchs(tmp_path):
    """The context is one of torch's; so are counts."""
    source = """
        import pytest
        import procession
        import torch.multiprocessing as mp

        def fail(rank):
            raise ValueError("this one")

        procession.adopt()
        context = mp.start_processes(fail, nprocs=1, join=False, start_method="fork")
        for none in 0, -1:
            assert mp.start_processes(fail, nprocs=none) is None
        for wrong in "2", 2.0, None:
            with pytest.raises(TypeError):
                mp.start_processes(fail, nprocs=wrong)
        assert mp.start_processes(print, nprocs=True) is None
        assert isinstance(context, mp.ProcessContext)
        assert type(context).__name__ == "ProcessContext"
        with pytest.raises(mp.ProcessRaisedException, match="ValueError: this one"):
            context.join()
    """
    run(tmp_path, source)
