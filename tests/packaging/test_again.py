"""What CI does with tests that have failed: see .ci/again."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import write

AGAIN = Path(__file__).parents[2] / ".ci" / "again"
pytestmark = pytest.mark.timeout(180)
COUNT = """
import pathlib

def test_it():
    runs = pathlib.Path({count!r})
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    assert len(runs.read_text()) != {bad}
"""


@pytest.fixture
def again(tmp_path):
    """Give a function that runs it after these tests have failed; gives code, errors and runs."""

    def run(place, bad=0, failed=None):
        shutil.copytree(AGAIN.parent, tmp_path / ".ci")
        python = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
        write(tmp_path / ".venv" / "bin" / "python", python).chmod(0o755)
        count = tmp_path / "count"
        write(tmp_path / place, COUNT.format(count=str(count), bad=bad))
        names = failed or [f"{place}::test_it"]
        write(tmp_path / ".pytest_cache/v/cache/lastfailed", json.dumps(dict.fromkeys(names, True)))
        command = [tmp_path / ".ci" / "again", tmp_path / ".venv", "2"]
        env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        return done.returncode, done.stderr, len(count.read_text()) if count.exists() else 0

    return run


def test_what_passes_each_time_is_named(again):
    code, err, runs = again("tests/cli/test_x.py")
    assert (code, runs) == (0, 2), err
    assert "FAILED BESIDE OTHERS: tests/cli/test_x.py::test_it" in err
    assert "UNSTEADY: failed beside others, passed 2 times under load: tests/cli/test_x.py" in err


def test_what_fails_once_more_fails(again):
    code, err, runs = again("tests/cli/test_x.py", bad=2)
    assert (code, runs) == (1, 2)
    assert "failed again (run 2 of 2 under load): tests/cli/test_x.py::test_it" in err


@pytest.mark.parametrize("place", ["faults/test_x", "system/test_tree"])
def test_what_is_about_chance_runs_more_often(again, place):
    code, err, runs = again(f"tests/{place}.py")
    assert (code, runs) == (0, 6), err
    assert f"passed 6 times under load: tests/{place}.py" in err


def test_many_failures_are_no_chance(again):
    code, err, runs = again("tests/cli/test_x.py", failed=[f"tests/a.py::{n}" for n in range(4)])
    assert (code, runs) == (1, 0)
    assert "4 tests failed" in err
