"""How much of this package, and of the standard library, the processes of a launch import."""

import os
import re
import subprocess
import sys

MOST = {"true": 108, "script.py": 116}  # modules of ours: to be lowered with them, never raised
COUNT = """
import sys
from procession.cli import main
sys.argv[1:] = ["run", *sys.argv[1:]]
code = main()
ours = [name for name in sys.modules if name.partition(".")[0] == "procession"]
print(code, len(ours), "argparse" in sys.modules)
"""


def modules_of(program, directory):
    command = [sys.executable, "-c", COUNT, program]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True)
    code, count, argparse = done.stdout.split()
    assert (code, argparse) == ("0", "False"), done.stderr
    return int(count)


def test_what_a_local_run_imports(tmp_path):
    (tmp_path / "script.py").write_text("")
    assert modules_of("true", tmp_path) <= MOST["true"]
    assert modules_of("script.py", tmp_path) <= MOST["script.py"]


def test_ranks_import_nothing_of_ours(tmp_path):
    """What all of them need is imported once, before they are forked."""
    (tmp_path / "script.py").write_text("import os\nprint('began')\n")
    done = subprocess.run(
        [sys.executable, "-m", "procession", "run", "-n", "3", "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1", "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("began") == 3, done.stderr
    # The first rank may have been asked what it imports.
    imported = re.findall(r"^\[[12]\].*\| +(\S+)$", done.stderr, re.MULTILINE)
    assert not [n for n in imported if n.partition(".")[0] in ("procession", "importlib", "json")]
    assert "| procession.cli" in re.sub(" +", " ", done.stderr)  # they are shown at all
