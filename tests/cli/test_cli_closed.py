"""The command with standard streams that are closed, or that nobody can write to."""

import os
import subprocess
import sys

import pytest
from commandline import PROCESSION, only

from support import run_program, write

CLOSED = ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"]
AS_MODULE = (sys.executable, "-m", "procession")


def closed(how, *words, program=PROCESSION):
    """Run the command with these streams closed; what is left of its output is captured."""
    return run_program("sh", "-c", f'exec "$@" {how}', "sh", *program, *words, timeout=30)


@pytest.mark.parametrize("how", CLOSED)
@pytest.mark.parametrize(
    ("program", "words", "code"),
    [
        (PROCESSION, ["run", "--help"], 0),
        (AS_MODULE, ["--version"], 0),
        (PROCESSION, ["run", "--frob"], 2),
        (AS_MODULE, ["doctor", "--frob"], 2),
        (PROCESSION, ["run", "-n", "2", "sh", "-c", "echo oops >&2; exit 3"], 3),
    ],
)
def test_codes_and_no_traceback(how, program, words, code):
    done = closed(how, *words, program=program)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if "2>&-" not in how:
        assert ("sh failed: rank " in done.stderr) == (code == 3)
        assert done.stderr.count("error: ") == (code == 2)


@pytest.mark.parametrize("how", CLOSED)
def test_run(tmp_path, how):
    script = write(
        tmp_path / "work.py",
        """
        import os, pathlib, sys
        print("hello")
        pathlib.Path(sys.argv[1], os.environ["RANK"]).touch()
        """,
    )
    place = tmp_path / "place"
    place.mkdir()
    done = closed(how, "run", "-n", 2, script, place)
    assert done.returncode == 0, done.stderr
    assert len(os.listdir(place)) == 2
    if ">&-" not in how.split():
        assert done.stdout.count("hello") == 2


def test_files_have_it_all_the_same(tmp_path):
    logs = tmp_path / "logs"
    done = closed("<&- >&- 2>&-", "run", "-n", 2, "--log-dir", logs, "-t", 3, "echo", "hello")
    assert done.returncode == 0
    for rank in (0, 1):
        assert (only(logs) / f"attempt_0/{rank}/stdout.log").read_text() == "hello\n"


@pytest.mark.parametrize("words", [["--help"], []])
def test_help_that_nobody_reads(words):
    ours, theirs = os.pipe()
    os.close(ours)
    with open(theirs, "w") as stdout:
        done = subprocess.run(
            [*PROCESSION, *words], stdout=stdout, stderr=subprocess.PIPE, timeout=30, check=False
        )
    assert done.returncode == (0 if words else 2)
    assert done.stderr == b""
