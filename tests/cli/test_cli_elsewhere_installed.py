"""procession where it cannot be what its user wants: another system, another environment."""

import os
import sys

import pytest
from commandline import run

from support import run_python, write

ON_LINUX = "procession runs on Linux, not on {}: use a Linux machine, container or WSL"


@pytest.mark.parametrize("system", ["win32", "darwin"])
@pytest.mark.parametrize("module", ["procession", "procession.cli"])
def test_other_systems_are_told_in_a_line(system, module):
    for argv, lines in (("/bin/procession-torchrun", 1), ("C:\\\\procession", 1), ("-c", None)):
        code = f"import sys; sys.platform = {system!r}; sys.argv[0] = {argv!r}; import {module}"
        done = run_python("-c", code)
        assert done.returncode == 1
        said = done.stderr.splitlines()
        assert said[-1].removeprefix("ImportError: ") == ON_LINUX.format(system)
        assert lines in (None, len(said))


def test_another_active_environment_is_told_once(tmp_path):
    script = write(tmp_path / "see.py", "import sys; print(sys.prefix)")
    python = write(tmp_path / "venv" / "bin" / "python", "")
    env = {**os.environ, "VIRTUAL_ENV": str(tmp_path / "venv")}
    done = run("-n", 2, script, env=env)
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] {sys.prefix}" for rank in (0, 1)]
    told = [line for line in done.stderr.splitlines() if "active environment" in line]
    assert len(told) == 1
    assert f"type {python} -m procession run" in told[0]
    for same in ({**env, "VIRTUAL_ENV": sys.prefix}, {**env, "VIRTUAL_ENV": "/nowhere"}):
        assert "active environment" not in run("-n", 1, script, env=same).stderr
    assert "active environment" not in run("-n", 1, "true", env=env).stderr
