"""`procession.once` in scripts, and `--shared`, by which their launch makes what it gives."""

import pytest

from support import run_procession, run_python, write

DATA = """
    import os

    def load(path, rows=3):
        with open(os.environ["CALLS"], "a") as f:
            f.write(f"{os.getpid()}\\n")
        return [path, rows, os.getpid()]
"""
TRAIN = """
    import os
    import sys

    import procession
    from data import load

    path, rows, pid = procession.once(load, "train.bin")
    where = {os.getpid(): "here", os.getppid(): "shared"}
    print(path, rows, where[pid], *sys.argv[1:])
"""


@pytest.fixture
def train(tmp_path, monkeypatch):
    write(tmp_path / "scripts" / "data.py", DATA)
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return write(tmp_path / "scripts" / "train.py", TRAIN)


def outcome(tmp_path, done):
    """Give the lines of the ranks, and how many times the set-up was called."""
    assert done.returncode == 0, done.stderr
    lines = sorted(line.partition("] ")[2] or line for line in done.stdout.splitlines())
    return lines, len((tmp_path / "calls").read_text().split())


def test_gives_what_was_loaded_once(train, tmp_path):
    words = ("run", "-n", "3", "--shared", 'data:load("train.bin")')
    done = run_procession(*words, train, "x")
    assert outcome(tmp_path, done) == (["train.bin 3 shared x"] * 3, 1)


def test_for_a_module(train, tmp_path):
    words = ("run", "-n", "2", "--shared", 'data:load("train.bin")', "-m", "train")
    done = run_procession(*words, cwd=train.parent)
    assert outcome(tmp_path, done) == (["train.bin 3 shared"] * 2, 1)


def test_calls_the_function_without_procession(train, tmp_path):
    assert outcome(tmp_path, run_python(train)) == (["train.bin 3 here"], 1)


def test_calls_the_function_in_a_launch_that_shares_nothing(train, tmp_path):
    assert outcome(tmp_path, run_procession("run", "-n", "2", train)) == (
        ["train.bin 3 here"] * 2,
        2,
    )


def test_calls_the_function_for_other_arguments(train, tmp_path):
    done = run_procession("run", "-n", "2", "--shared", 'data:load("other")', train)
    assert outcome(tmp_path, done) == (["train.bin 3 here"] * 2, 3)


def test_a_function_of_the_script_itself_is_refused(train):
    done = run_procession("run", "--shared", "train:load", train)
    assert done.returncode == 2
    assert "is in the program itself" in done.stderr


def test_a_dry_run_says_what_is_loaded_and_loads_nothing(train, tmp_path):
    done = run_procession("run", "--dry-run", "--shared", "data:load", train)
    assert "loaded once, and shared: data:load\n" in done.stdout
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize(
    "call",
    ["data", "data:", ":load", "data:load(", "data:load(x)", "data:load(*[1])", "data:load(**{})",
     "data:a.load()", "da ta:load", "data:load;1", "data:[load]", "data:load(1)(2)"],
)  # fmt: skip
def test_refuses_wrong_forms_in_one_line(train, tmp_path, call):
    done = run_procession("run", "-n", "2", "--shared", call, train)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("procession run: error: --shared")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("nowhere:load", "ModuleNotFoundError: No module named 'nowhere'"),
        ("data:nothing", "AttributeError: module 'data' has no attribute 'nothing'"),
        ("data:load", "missing 1 required positional argument: 'path'"),
    ],
)
def test_what_is_not_there_fails_as_a_rank_would(train, call, said):
    done = run_procession("run", "-n", "2", "--shared", call, train)
    assert done.returncode == 1
    assert said in done.stderr
    assert f"raised by the shared set-up {call}, before the program" in done.stderr


def test_what_it_finds_is_what_the_script_would_find(tmp_path):
    """A local module goes before the standard library's, in the set-up as in the script."""
    write(tmp_path / "json.py", "NAME = 'mine'\n")
    write(
        tmp_path / "data.py",
        "import json\nimport sys\n\ndef load():\n    return json.NAME, sys.argv\n",
    )
    program = """
        import procession
        from data import load
        import json

        print(*procession.once(load), json.NAME)
    """
    script = write(tmp_path / "train.py", program)
    done = run_procession("run", "--shared", "data:load", script, "x")
    assert done.stdout == f"mine ['{script}', 'x'] mine\n", done.stderr
