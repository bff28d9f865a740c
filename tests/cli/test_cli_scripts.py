"""What scripts do, and how the command and its report take it."""

import re

import pytest
from commandline import run

from support import PROCESSION, write

METHODS = ("forkserver", "spawn")
DEEP = """
    import os, signal

    def load_batch(number):
        raise ValueError(f"batch {number} is corrupt")

    if os.environ["RANK"] == "1":
        load_batch(7)
    while True:
        signal.pause()
"""


def parts(stderr, name):
    """Divide what came on stderr into the ranks' lines and the report."""
    at = stderr.index(f"{name} failed: ")
    return stderr[:at], stderr[at:]


def without_marks(text):
    """Give lines without those that mark a call in the one above, as newer Pythons do."""
    return [line for line in text.splitlines() if not re.fullmatch(r"(\[\d+\] )? *[~^]+", line)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("nproc", [1, 3])
def test_traceback_once_on_the_console_and_once_in_the_report(tmp_path, method, nproc):
    script = write(tmp_path / "deep.py", DEEP.replace('"1"', f'"{nproc - 1}"'))
    done = run("-n", nproc, "--start-method", method, "--all-output", script)
    assert done.returncode == 1
    shown, report = parts(done.stderr, "deep.py")
    prefix = f"[{nproc - 1}] " if nproc > 1 else ""
    wanted = [
        "Traceback (most recent call last):",
        f'  File "{script}", line 7, in <module>',
        "    load_batch(7)",
        f'  File "{script}", line 4, in load_batch',
        '    raise ValueError(f"batch {number} is corrupt")',
        "ValueError: batch 7 is corrupt",
    ]
    assert without_marks(shown) == [prefix + line for line in wanted]
    lines = without_marks(report)
    assert re.fullmatch(
        rf"deep\.py failed: rank {nproc - 1}( of 3)? \(pid \d+\) raised "
        r"ValueError: batch 7 is corrupt after .+",
        lines[0],
    )
    at = lines.index("  " + wanted[0])
    assert lines[at : at + 6] == ["  " + line for line in wanted]
    assert report.count("ValueError") == 3  # headline, source line, last line
    assert "last lines of stderr" not in report
    assert ("ended by the group:" in report) == (nproc > 1)


@pytest.mark.parametrize("method", METHODS)
def test_syntax_error(tmp_path, method):
    script = write(tmp_path / "broken.py", "def f(:\n    pass\n")
    done = run("-n", 2, "--start-method", method, script)
    assert done.returncode == 1
    _, report = parts(done.stderr, "broken.py")
    assert "raised SyntaxError" in report.splitlines()[0]
    assert f'File "{script}", line 1' in report
    assert "def f(:" in report
    assert "procession/worker" not in done.stderr
    assert "<frozen" not in done.stderr


def test_script_that_runs_the_command_itself(tmp_path):
    write(tmp_path / "inner.py", 'import os; print("inner", os.environ["RANK"])')
    outer = write(
        tmp_path / "outer.py",
        f"""
        import subprocess, sys
        words = [{PROCESSION[0]!r}, "run", "-n", "2", sys.argv[1]]
        sys.exit(subprocess.run(words).returncode)
        """,
    )
    done = run("-n", 2, outer, tmp_path / "inner.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"[{outer_rank}] [{rank}] inner {rank}" for outer_rank in (0, 1) for rank in (0, 1)
    ]
