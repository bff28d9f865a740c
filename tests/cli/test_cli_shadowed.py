"""A user's files do not take the place of modules that the launcher and its helpers import."""

import os
import subprocess
import sys

import pytest

import procession
from engines.localengine import LocalEngine
from support import START_PATIENCE, until, write

# Left alone: what an interpreter has loaded before it looks at its program, and so never shadowed.
NAMES = sorted(n for n in sys.stdlib_module_names - {"__main__", "antigravity", "this"})


def command(*words, **options):
    """Run the console script: `python -m` itself imports from the current directory."""
    script = os.path.join(os.path.dirname(sys.executable), "procession")
    words = [sys.executable, script, *map(str, words)]
    options = {"capture_output": True, "text": True, "timeout": 40, **options}
    return subprocess.run(words, check=False, stdin=subprocess.DEVNULL, **options)


@pytest.fixture
def shadowed(tmp_path, monkeypatch):
    """Be in a directory that has a file of every module's name; each tells when it is imported."""
    here = tmp_path / "here"
    here.mkdir()
    for name in NAMES:
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'told')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(here)
    yield here
    assert not (tmp_path / "told").exists(), (tmp_path / "told").read_text()


def program(tmp_path):
    return write(tmp_path / "other" / "train.py", "print('ran')")


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_script_elsewhere(shadowed, tmp_path, method):
    done = command("run", "-n", 2, "--start-method", method, program(tmp_path))
    assert (done.returncode, sorted(done.stdout.split("\n"))) == (0, ["", "[0] ran", "[1] ran"])


def test_a_command(shadowed):
    done = command("run", "-n", 1, "sh", "-c", "echo ran")
    assert (done.returncode, done.stdout.split()[-1]) == (0, "ran"), done.stderr


def test_a_detached_launcher(shadowed, tmp_path):
    done = command("run", "--detach", "-n", 1, program(tmp_path))
    assert done.returncode == 0, done.stderr
    until(lambda: "ran" in command("logs", done.stdout.strip()).stdout, "output", START_PATIENCE)


def test_the_node_processes_of_a_job(shadowed):
    assert procession.run(["true"], engine=LocalEngine(2), nproc=1) == [None] * 2
