"""A user's files do not take the place of modules that the launcher and its helpers import."""

import os
import subprocess
import sys

import pytest

import procession
from engines.localengine import LocalEngine
from seams.forkserver import boot
from support import run_python, until, write

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
    until(lambda: "ran" in command("logs", done.stdout.strip()).stdout, "the rank's output")


def test_the_agents_of_a_job(shadowed):
    assert procession.run(["true"], engine=LocalEngine(2), nproc=1) == [None] * 2


def test_a_program_has_its_own_directory_first(tmp_path):
    write(tmp_path / "json.py", "mine = True")
    script = write(tmp_path / "own.py", "import json, sys; print(json.mine, sys.path[0])")
    for method in ("forkserver", "spawn"):
        done = command("run", "-n", 1, "--start-method", method, script, cwd="/")
        assert done.stdout.split()[-2:] == ["True", str(tmp_path)], done.stderr
    done = command("run", "-n", 1, "-m", "own", cwd=tmp_path)
    assert done.stdout.split()[-2:] == ["True", str(tmp_path)], done.stderr


def test_a_python_of_ours_obeys_the_flags_that_keep_its_path_as_it_is(tmp_path):
    """It has nothing to take away from the path then."""
    write(tmp_path / "said.py", "import sys\ndef path(): print(sys.path, sys.argv[1:])")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    plain = run_python("-c", "import sys; print(sys.path[1:], ['a', 'b'])", env=env).stdout
    words = boot.own_python("said:path", "a", "b")[1:]
    for flags in ([], *([["-P"]] if sys.version_info >= (3, 11) else [])):
        assert run_python(*flags, *words, env=env, cwd=tmp_path).stdout == plain
