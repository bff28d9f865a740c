"""The help reads well, and the way to it is short."""

import re

import pytest
from commandline import command

from seams.cli import make_parser
from support import run_python


def test_help_of_run_is_a_screen_of_options_that_there_are():
    done = command("run", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) < 40
    named = set(re.findall(r"--[a-z-]+", done.stdout))
    assert 20 <= len(named) <= 30
    assert named - set(make_parser().named) == set()


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help-all"], ["run", "-h"], ["doctor", "--help"]]
)
def test_help_fits_a_terminal_and_shows_dashes_only(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = command(*words).stdout
    assert max(map(len, text.splitlines())) <= 100
    assert not re.search(r"--\w+_\w+", text)
    assert "==SUPPRESS==" not in text


def test_without_words_it_shows_the_help():
    done = command()
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout == command("--help").stdout
    for word in ("run", "doctor", "--version", "ranks", "procession run -n 4 train.py"):
        assert word in done.stdout


MODULES_OF_OURS = 94  # that a launch of a program may import: each costs it 0.2 ms


def test_import_imports_little():
    done = run_python("-c", "import sys; import procession; procession.run; print(*sys.modules)")
    heavy = {"dataclasses", "inspect", "typing", "socket", "pickle", "json", "shutil", "tempfile",
             "random", "ctypes", "re", "argparse", "contextlib", "cloudpickle"}  # fmt: skip
    alone = run_python("-c", "import sys; print(*sys.modules)")  # what `site` brings
    assert (heavy & set(done.stdout.split())) - set(alone.stdout.split()) == set()


def test_launch_imports_little():
    code = """
import sys
before = set(sys.modules)
from procession.cli import main
assert main(["run", "-n", "2", "true"]) == 0
heavy = {"dataclasses", "inspect", "typing", "socket", "pickle", "json", "shutil", "tempfile",
         "random", "ctypes", "cloudpickle", "tblib", "asyncio",
         "multiprocessing", "rich", "psutil", "torch", "numpy",
         "concurrent.futures", "logging", "typing_extensions", "difflib",
         "argparse", "array", "subprocess"}
new = set(sys.modules) - before
print(sorted(heavy & new), len([name for name in new if name.startswith("procession")]))
"""
    done = run_python("-c", code)
    found, ours = done.stdout.rsplit(maxsplit=1)
    assert found == "[]", done.stderr
    assert int(ours) <= MODULES_OF_OURS
