"""How much of this package, and of the standard library, the processes of a launch import."""

import os
import re

from support import run_procession


def test_ranks_import_nothing_of_ours(tmp_path):
    """What all of them need is imported once, before they are forked."""
    (tmp_path / "script.py").write_text("import os\nprint('began')\n")
    env = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1", "XDG_CACHE_HOME": str(tmp_path)}
    done = run_procession("run", "-n", "3", "script.py", cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout.count("began")) == (0, 3), done.stderr
    # The first rank may have been asked what it imports.
    imported = re.findall(r"^\[[12]\].*\| +(\S+)$", done.stderr, re.MULTILINE)
    assert not [n for n in imported if n.partition(".")[0] in ("procession", "importlib", "json")]
    assert "| procession.cli" in re.sub(" +", " ", done.stderr)  # they are shown at all
