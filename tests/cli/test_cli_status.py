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


ONE_PLACE = ("sh", "-c", 'exec "$@" 2>&1', "sh", *PROCESSION)


@pytest.mark.parametrize("program", [PROCESSION, ONE_PLACE], ids=["stderr", "one place"])
def test_status_is_never_in_the_middle_of_a_line(tmp_path, work, program):
    go = tmp_path / "go"
    with Watched("run", "-n", 2, "--status", 0.1, work, go, program=program) as command:
        command.shows(b"first half of 0", b"first half of 1", b": 2 RUNNING, 3/10, ")
        go.touch()
        assert command.end() == 0
    out, err = command.out.decode().splitlines(), command.err.decode().splitlines()
    assert any(map(LINE.fullmatch, err if program is PROCESSION else out)), (out, err)
    assert all(line.startswith("procession: ") for line in err)
    for line in out:
        assert line.count("procession:") == line.startswith("procession:"), line
        wanted = ("[0] ", "[1] ") if program is PROCESSION else ("procession: ", "[0] ", "[1] ")
        assert line.startswith(wanted), line


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
