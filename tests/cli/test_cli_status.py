"""`--status`, and `--live` without a terminal: a line now and then, between lines of ranks."""

import re

import pytest
from commandline import PROCESSION, Watched, run

from support import write

LINE = re.compile(
    r"procession: \d\d:\d\d work.py: 2 RUNNING, 3/10, \d:\d\d, [\d.]+ MB(, \d+ % CPU)?"
)


@pytest.fixture
def work(tmp_path):
    """Give a program that waits, in the middle of a line, until a file is there."""
    return write(
        tmp_path / "work.py",
        """
        import os, pathlib, sys, time
        import procession
        rank = int(os.environ["RANK"])
        procession.beat(3 + 2 * rank, 10)
        print(f"first half of {rank},", end=" ", flush=True)
        while not pathlib.Path(sys.argv[1]).exists():
            time.sleep(0.01)
        print(f"second half of {rank}", flush=True)
        """,
    )


def test_status_on_stderr(tmp_path, work):
    go = tmp_path / "go"
    with Watched("run", "-n", 2, "--status", 0.1, work, go) as command:
        command.shows(b": 2 RUNNING, 3/10, ", b"first half of 1")
        go.touch()
        assert command.end() == 0
    said = command.err.decode().splitlines()
    assert all(line.startswith("procession: ") for line in said)
    assert any(LINE.fullmatch(line) for line in said), said
    out = command.out.decode()
    assert "procession" not in out
    assert out.count("first half of ") == out.count("second half of ") == 2


def test_status_is_never_in_the_middle_of_a_line(tmp_path, work):
    go = tmp_path / "go"
    one_place = ("sh", "-c", 'exec "$@" 2>&1', "sh", *PROCESSION)
    with Watched("run", "-n", 2, "--status", 0.1, work, go, program=one_place) as command:
        command.shows(b"first half of 0", b"first half of 1", b": 2 RUNNING, 3/10, ")
        go.touch()
        assert command.end() == 0
    for line in command.out.decode().splitlines():
        assert line.count("procession:") == line.startswith("procession:"), line
        assert line.startswith(("procession: ", "[0] ", "[1] ")), line


def test_live_without_a_terminal_is_a_line_of_status(tmp_path, work):
    go = tmp_path / "go"
    go.touch()
    done = run("-n", 2, "--live", work, go)
    assert done.returncode == 0
    assert done.stderr == (
        "procession: no live view: the standard output is no terminal; "
        "a line of status comes every 60 s [P413]\n"
    )
    assert sorted(done.stdout.splitlines()) == [
        f"[{r}] first half of {r}, second half of {r}" for r in range(2)
    ]
