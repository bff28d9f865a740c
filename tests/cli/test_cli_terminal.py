"""The command on a terminal: colours, debugging, what is typed."""

import os
import re

import pytest
from commandline import Terminal

from support import alive, gone, reader_of, until, write

COLOUR = re.compile(r"\x1b\[(\d+)m\[(\d)\] \x1b\[0m")


@pytest.fixture
def hello(tmp_path, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return write(tmp_path / "hello.py", 'import os; print("hello of", os.environ["RANK"])')


def test_each_rank_has_a_colour(hello):
    with Terminal("run", "-n", 4, hello) as terminal:
        assert terminal.end() == 0
    found = {}
    for line in terminal.lines:
        colour, rank = COLOUR.match(line).groups()
        assert COLOUR.sub("", line) == f"hello of {rank}"
        found[rank] = colour
    assert set(found) == set("0123")
    assert len(set(found.values())) == 4


def test_breakpoint_of_a_single_rank(tmp_path):
    script = write(
        tmp_path / "buggy.py",
        """
        answer = 6
        breakpoint()
        print("went on with", answer)
        """,
    )
    with Terminal("run", script) as terminal:
        terminal.shows(b"(Pdb) ")
        terminal.type(b"p answer * 7\n")
        terminal.shows(b"42")
        terminal.type(b"answer = 99\n")
        terminal.type(b"c\n")
        terminal.shows(b"went on with 99")
        assert terminal.end() == 0


@pytest.mark.parametrize("nproc", [1, 3])
def test_control_c_is_130(tmp_path, nproc):
    script = write(
        tmp_path / "wait.py",
        """
        import os, pathlib, sys, time
        pathlib.Path(sys.argv[1], os.environ["RANK"]).write_text(f"{os.getpid()}\\n")
        time.sleep(3600)
        """,
    )
    pids = tmp_path / "pids"
    pids.mkdir()
    with Terminal("run", "-n", nproc, script, pids) as terminal:
        until(lambda: len(os.listdir(pids)) == nproc, "all ranks", patience=20)
        ranks = [until(reader_of(p), "a pid")[0] for p in pids.iterdir()]
        assert all(map(alive, ranks))
        terminal.type(b"\x03")
        assert terminal.end() == 130
        gone(ranks)
