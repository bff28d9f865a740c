"""What is kept from one command to the next: each change takes its layer and those above."""

import os
import random

import pytest
from keeping import keeper
from tree import Tree

from support import run_procession, run_python, write

RUNS = int(os.environ.get("PROCESSION_FUZZ_RUNS", "6"))
DATA = """
    import os

    def load(path):
        with open(os.environ["CALLS"], "a") as f:
            f.write("called\\n")
        with open(path) as f:
            return [f.read(), "as of {version}", os.getpid()]
"""
TRAIN = """
    import decimal
    import os
    import procession
    from data import load

    text, version, pid = procession.once(load, "train.txt")
    print(text, version, "shared" if pid == os.getppid() else pid)
"""


@pytest.fixture
def kept():
    yield from keeper()


@pytest.mark.timeout(300)
def test_a_shared_set_up_is_used_again_while_nothing_changes(tmp_path, kept):
    calls = tmp_path / "calls"
    data = write(tmp_path / "data.py", DATA.replace("{version}", "1"))
    write(tmp_path / "train.txt", "a")
    script = write(tmp_path / "train.py", TRAIN)
    options = ("--warm", "--shared", 'data:load("train.txt")', "--preload", "decimal")
    more = {"cwd": tmp_path, "env": {**os.environ, "CALLS": str(calls)}, "timeout": 60}

    def said(*words):
        """Run it; gives what the ranks said, how often was loaded in all, why it started cold."""
        done = run_procession("run", *options, "-n", "2", script, *words, **more)
        assert done.returncode == 0, done.stderr
        lines = {line.partition("] ")[2] for line in done.stdout.splitlines()}
        cold = done.stderr.partition("starts cold: ")[2].strip()
        return lines, len(calls.read_text().splitlines()), cold

    assert said() == ({"a as of 1 shared"}, 1, "nothing is kept yet [P406]")
    assert sorted(map(modules_of, kept.list())) == [(["decimal"], False), (["decimal"], True)]
    assert said() == ({"a as of 1 shared"}, 1, "")
    # The script alone: nothing has to be loaded.
    write(script, TRAIN + "    print('more', 'as of 1', 'shared')\n")
    assert said() == ({"a as of 1 shared", "more as of 1 shared"}, 1, "")
    write(script, TRAIN)
    # A file that was read, and a module of the program: the imports below stay.
    write(tmp_path / "train.txt", "b")
    assert said() == ({"b as of 1 shared"}, 2, "")
    # Another size: a .pyc knows the time in whole seconds only.
    write(data, DATA.replace("{version}", "22"))
    assert said() == ({"b as of 22 shared"}, 3, "")
    # Other words of the program, which the set-up could have read.
    assert said("x") == ({"b as of 22 shared"}, 4, "")


def modules_of(kept):
    return kept["modules"], bool(kept["shared"])


@pytest.mark.timeout(200)
def test_own_modules_are_above_those_that_are_installed(tmp_path, kept):
    own = write(tmp_path / "own" / "ownmodule.py", "WHAT = 1\n")
    script = write(tmp_path / "a.py", "import ownmodule, os\nprint(ownmodule.WHAT, os.getppid())\n")
    more = {"env": {**os.environ, "PYTHONPATH": str(own.parent)}, "timeout": 60}

    def said():
        options = ("--warm", "--preload", "decimal,ownmodule", "-n", "1")
        done = run_procession("run", *options, script, **more)
        assert done.returncode == 0, done.stderr
        what, pid = done.stdout.split()
        return int(what), int(pid), done.stderr.partition("starts cold: ")[2].strip()

    what, first, why = said()
    assert (what, why) == (1, "nothing is kept yet [P406]")
    assert said() == (1, first, "")
    below = next(each for each in kept.list() if each["modules"] == ["decimal"])
    write(own, "WHAT = 22\n")
    assert said() == (22, below["pid"], "")
    assert said() == (22, below["pid"], "")


@pytest.mark.timeout(200 + 10 * RUNS)
def test_fuzz(tmp_path, kept):
    """Each run says what Python alone says, whatever was changed since the last one."""
    seed = int(os.environ.get("PROCESSION_FUZZ_SEED") or random.randrange(1 << 32))
    print(f"PROCESSION_FUZZ_SEED={seed} PROCESSION_FUZZ_RUNS={RUNS}")
    script = write(tmp_path / "script.py", "import program\nprint(program.value())\n")
    tree = Tree(tmp_path / "tree", seed)
    used = 0
    for run in range(RUNS):
        done = [tree.change() for _ in range(tree.random.choice((0, 1, 2)))] if run > 1 else []
        env = {**os.environ, **tree.env, "PYTHONPATH": os.pathsep.join(tree.path)}
        options = ("--warm", "--preload", "decimal,program", "-n", "1")
        warm = run_procession("run", *options, script, env=env, timeout=60)
        cold = run_python(script, env=env)
        assert warm.stdout == cold.stdout, f"seed {seed}, run {run}: {done}: {warm.stderr}"
        used += "starts cold" not in warm.stderr
    assert used > 0
