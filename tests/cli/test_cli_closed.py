"""The command with standard streams that are closed, or that nobody can write to."""

import os
import subprocess
import sys

import pytest
from commandline import PROCESSION, only

from support import write

CLOSED = ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"]
AS_MODULE = (sys.executable, "-m", "procession")


def closed(how, *words, program=PROCESSION):
    """Run the command with these streams closed; what is left of its output is captured."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {how}', "sh", *program, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("how", CLOSED)
@pytest.mark.parametrize("program", [PROCESSION, AS_MODULE], ids=["installed", "module"])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["run", "--help"], 0),
        ([], 2),
        (["frob"], 2),
        (["run", "--frob"], 2),
        (["run"], 2),
        (["doctor", "--frob"], 2),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_words_that_start_nothing(how, program, words, code):
    done = closed(how, *words, program=program)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if "2>&-" not in how:
        assert len(done.stderr.splitlines()) == (code == 2 and bool(words))


@pytest.mark.parametrize("how", CLOSED)
@pytest.mark.parametrize("nproc", [1, 2])
def test_run(tmp_path, how, nproc):
    script = write(
        tmp_path / "work.py",
        """
        import os, pathlib, sys
        print("hello")
        print("oops", file=sys.stderr)
        pathlib.Path(sys.argv[1], os.environ["RANK"]).touch()
        """,
    )
    place = tmp_path / "place"
    place.mkdir()
    done = closed(how, "run", "-n", nproc, script, place)
    assert done.returncode == 0, done.stderr
    assert len(os.listdir(place)) == nproc
    if ">&-" not in how.split():
        assert done.stdout.count("hello") == nproc
    if "2>&-" not in how:
        assert done.stderr.count("oops") == nproc
        assert "procession" not in done.stderr


@pytest.mark.parametrize("how", CLOSED)
def test_failure(how):
    done = closed(how, "run", "-n", 2, "sh", "-c", "exit 3")
    assert done.returncode == 3
    if "2>&-" not in how:
        assert "sh failed: rank " in done.stderr
        assert "Traceback" not in done.stderr


def test_files_have_it_all_the_same(tmp_path):
    logs = tmp_path / "logs"
    done = closed("<&- >&- 2>&-", "run", "-n", 2, "--log-dir", logs, "-t", 3, "echo", "hello")
    assert done.returncode == 0
    for rank in (0, 1):
        assert (only(logs) / f"attempt_0/{rank}/stdout.log").read_text() == "hello\n"


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["--version"], []])
def test_help_that_nobody_reads(words):
    ours, theirs = os.pipe()
    os.close(ours)
    with open(theirs, "w") as stdout:
        done = subprocess.run(
            [*PROCESSION, *words], stdout=stdout, stderr=subprocess.PIPE, timeout=30, check=False
        )
    assert done.returncode == (0 if words else 2)
    assert done.stderr == b""
