"""`--preload` and `--dry-run`."""

import os

import pytest
from commandline import Terminal, good, run

from support import require, write

SOURCE = """
import json
import decimal
import os
print("x", end=" ")
import colorsys, sys
print("procession.worker.renewal" in sys.modules, "begins", *sorted(os.environ["NAMES"].split()))
"""


@pytest.fixture
def script(tmp_path):
    return write(tmp_path / "main.py", SOURCE)


def early(*words, names="", **options):
    """Run it; gives whether something had been imported before its rank."""
    out = good("-n", "1", *words, env={**os.environ, "NAMES": names}, **options)
    assert out.startswith("x ")
    return out.split()[1] == "True"


def test_what_is_asked_for(script):
    assert early(script)
    assert early("--preload", "auto", script)
    assert early("--preload", "decimal,json", script)
    assert early("--preload=decimal", script)
    assert not early("--preload", "none", script)
    assert not early("--start-method", "spawn", script)


def test_a_variable_that_an_import_changes_is_so_in_the_ranks(tmp_path):
    script = write(tmp_path / "main.py", "import changes, os\nprint(os.environ['CHANGED'])\n")
    env = {**os.environ, "CHANGED": "a", "PYTHONPATH": str(tmp_path)}
    write(tmp_path / "changes.py", "import os\nos.environ['CHANGED'] += 'b'\n")
    assert good("-n", 1, "--preload", "changes", script, env=env) == "ab\n"


def test_a_module_that_is_not_there_is_left_to_the_ranks_with_a_note(script):
    assert early("--preload", "decimal,no_such_module", script)
    env = {**os.environ, "NAMES": ""}
    done = run("--preload", "decimal,colorsis", script, env=env)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "colorsis (ModuleNotFoundError) could not be imported" in line
    assert run("--preload", "decimal", script, env=env).stderr == ""


def test_dry_run(tmp_path):
    ran = tmp_path / "ran"
    source = f"import json\nimport decimal\nimport antigravity\nopen({str(ran)!r}, 'w')\n"
    path = write(tmp_path / "main.py", source)
    out = good("-n", "2", "--dry-run", path, "--own", cwd=tmp_path)
    assert not ran.exists()
    assert out.splitlines()[0].startswith("2 ranks of: ")
    assert "main.py --own" in out
    assert "json" in out
    assert "decimal" in out
    told = out.splitlines()
    told = told[told.index("preloaded, in this order:") :]
    assert [line.partition(":")[0] for line in told if not line.startswith("  ")] == [
        "preloaded, in this order", "left to the ranks", "read up to main.py",
    ]  # fmt: skip
    assert "  antigravity: it opens a browser" in told
    assert any(line.startswith("read up to main.py:4: ") for line in told)
    assert "  rank 1: " in out
    assert "RANK=1" in out
    assert "as asked" in good("-n", "1", "--dry-run", "--preload", "none", path)


def test_warnings_are_what_the_ranks_own_variable_says(tmp_path):
    """Not that of the launcher; and pytest has nothing to warn of."""
    write(tmp_path / "test_a.py", "import sys\ndef test(): assert sys.warnoptions == ['error']\n")
    words = "-x", "PYTHONWARNINGS=error", "-m", "pytest", "-W", "error"
    env = {**os.environ, "PYTHONWARNINGS": "default"}
    good("-n", "1", *words, cwd=tmp_path, env=env)


def test_a_terminal_is_told_once_what_each_rank_imports(tmp_path):
    require("numpy")
    write(tmp_path / "site-packages" / "nobodys.py", "")
    own = {"PYTHONPATH": str(tmp_path / "site-packages"), "XDG_CACHE_HOME": str(tmp_path)}
    env = {**os.environ, **own}
    path = write(tmp_path / "main.py", "import nobodys, numpy\nprint('ends')\nimport yaml, sys\n")
    said = []
    first = ("-v", path), (path,), ("-m", "main")
    for words in (*first, ("-m", "main"), (path,), ("--preload", "none", path), ("--json", path)):
        with Terminal("run", "-n", "1", *words, env=env, cwd=tmp_path) as terminal:
            terminal.process.wait(60)
            terminal.shows(b"ends")
            said.append(bytes(terminal.screen))
    for screen in said[:3]:
        assert b"each rank imports nobodys, yaml: --preload numpy,nobodys,yaml imports" in screen
    assert all(b"each rank imports" not in screen for screen in said[3:])
    assert run("-n", "1", "--preload", "numpy,nobodys", path, env=env).stderr == ""
    other = write(tmp_path / "other.py", "import nobodys, numpy")
    assert run("-n", "1", other, env=env).stderr == ""  # not on a terminal
