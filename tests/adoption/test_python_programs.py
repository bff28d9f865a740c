"""Where torch's agent starts `python -u script.py`, ranks are forked from one interpreter."""

import sys

import pytest
from standintorch import make

from seams.adoption import as_python_program
from support import run_python, write

pytestmark = pytest.mark.timeout(170)  # seconds at most, where nothing else runs


def test_python_commands_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "main.py"])
    script = str(write(tmp_path / "train.py", ""))
    words = [["-u", script, "-u", "x"], ["-u", script, "y"]]
    program, left = as_python_program(sys.executable, words)
    assert (program.path, left) == (script, [["-u", "x"], ["y"]])
    program, left = as_python_program(sys.executable, [["-u", "-m", "package.train", "x"]])
    assert (program.name, left) == ("package.train", [["x"]])
    others = [
        ("sh", [["-u", script]]),
        (sys.executable, [[script]]),
        (sys.executable, [["-u", "-c", "pass"]]),
        (sys.executable, [["-u"]]),
        (sys.executable, [["-u", "-m"]]),
        (sys.executable, [["-u", str(tmp_path / "missing.py")]]),
        (sys.executable, [["-u", "-m", "one"], ["-u", "-m", "two"]]),
    ]
    assert [as_python_program(*each) for each in others] == others
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-O", "main.py"])
    assert as_python_program(sys.executable, words) == (sys.executable, words)


def test_launches(tmp_path):
    """Scripts and programs, as torch's agent starts them; some give no name, as TorchX does."""
    write(
        tmp_path / "train.py",
        """
        import os, sys
        names = ("RANK", "WORLD_SIZE", "MASTER_PORT", "OMP_NUM_THREADS", "PYTHONUNBUFFERED")
        print(*(os.environ.get(name) for name in names), *sys.argv[1:], os.getppid())
        if "bad" in sys.argv and os.environ["RANK"] == "1":
            raise LookupError("not there")
        """,
    )
    source = """
        import glob, os, sys
        import procession
        from procession.elastic import DefaultLogsSpecs, Std

        procession.adopt()
        from torch.distributed.elastic.multiprocessing import start_processes

        def start(where, *words):
            ranks = range(2)
            logs = DefaultLogsSpecs(where, redirects=Std.ALL)
            ranks = start_processes(
                "", words[0], {rank: (*words[1:], f"lr={rank}") for rank in ranks},
                {rank: {"RANK": str(rank)} for rank in ranks}, logs)
            output = lambda: [open(path).read().split() for path in ranks.stdouts.values()]
            return ranks.wait(), output()

        def parents(*words):
            result, said = start("a", sys.executable, *words)
            assert result.return_values == {0: None, 1: None}
            assert [line[:-1] for line in said] == [
                [str(rank), "None", "None", "None", "1", f"lr={rank}"] for rank in range(2)], said
            return {int(line[-1]) for line in said}

        assert os.getpid() not in parents("-u", "train.py")
        assert os.getpid() not in parents("-u", "-m", "train")
        result, said = start("b", sys.executable, "-u", "train.py", "bad")
        assert [*result.failures] == [1]
        assert result.failures[1].exitcode == 1
        assert "LookupError: not there" in str(result.failures[1].message)
        result, _ = start("c", "sh", "-c", "kill -9 $$")
        assert {each.exitcode for each in result.failures.values()} == {-9}, result
    """
    script = write(make(tmp_path) / "main.py", source)
    done = run_python(script, timeout=150, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
