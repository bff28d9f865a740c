"""`--pdb`: pytest's post-mortem of the rank that failed first, on the terminal."""

import contextlib
import os
import sys
import textwrap

import pytest
from pytestruns import QUIET, run

from cli.commandline import Terminal

TESTS = """
    import os
    import time

    import pytest

    @pytest.mark.ranks(3)
    def test_one(rank):
        secret = 40 + rank
        if rank == 1:
            assert secret == 0
        time.sleep(600)

    @pytest.mark.ranks(2, timeout=15)
    def test_all(rank, gather):
        secret = 70
        gather(rank)
        assert secret == 0

    @pytest.mark.ranks(1, method="spawn")
    def test_fresh_interpreter():
        secret = 80
        assert secret == 0

    def test_without_ranks():
        secret = 90
        assert secret == 0

    @pytest.mark.ranks(2)
    def test_killed(rank):
        os.kill(os.getpid(), 9)

    @pytest.mark.ranks(2)
    def test_good(gather):
        assert gather(1) == [1, 1]
"""

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param([], id="captured"),
        pytest.param(["-s", "--pdbcls=pdb:Pdb"], id="not captured", marks=pytest.mark.long),
    ],
)
def test_the_rank_that_failed_first_is_debugged_on_the_terminal(tmp_path, how):
    (tmp_path / "test_a.py").write_text(textwrap.dedent(TESTS))
    (tmp_path / "pytest.ini").touch()
    words = [*QUIET, "--pdb", "--color=no", f"--basetemp={tmp_path}/base", *how]
    pytest_itself = [sys.executable, "-m", "pytest"]
    with Terminal(*words, program=pytest_itself, cwd=tmp_path) as terminal:

        def says(answer):
            terminal.shows(answer, patience=40)
            del terminal.screen[: terminal.screen.index(answer) + len(answer)]

        says(b"rank 1 of 3 failed first")
        says(b"(Pdb) ")
        terminal.type(b"p secret * 1000\n")
        says(b"41000")
        says(b"(Pdb) ")
        # Between its prompt and its wait for a key, an interpreter does not notice a Ctrl-C.
        while b"KeyboardInterrupt" not in terminal.screen:
            terminal.type(b"\x03")
            with contextlib.suppress(pytest.fail.Exception):
                terminal.shows(b"KeyboardInterrupt", patience=10)
        says(b"KeyboardInterrupt")
        says(b"(Pdb) ")
        for secret in (b"70000", b"80000", b"90000"):
            terminal.type(b"continue\n")
            says(b"(Pdb) ")
            terminal.type(b"p secret * 1000\n")
            says(secret)
            says(b"(Pdb) ")
        terminal.type(b"continue\n")
        says(b"ranks 0,2: ended while in test_one")
        says(b"5 failed, 1 passed")
        assert terminal.end() == pytest.ExitCode.TESTS_FAILED
    assert os.listdir(os.environ["TMPDIR"]) == []


def test_to_leave_the_debugger_ends_the_session(tmp_path):
    found = run(tmp_path, "--pdb", test_a=TESTS)  # its input is at its end
    assert "rank 1 of 3 failed first" in found.text
    assert "Exit: Quitting debugger" in found.text
    assert "1 failed" in found.text
    assert found.outcomes == {"test_one": "failure"}
    assert found.code == pytest.ExitCode.INTERRUPTED


def test_several_ranks_cannot_be_traced(tmp_path):
    found = run(tmp_path, "--trace", test_a=TESTS)
    assert "test_a.py::test_one is several at once" in found.text
    assert found.code == pytest.ExitCode.USAGE_ERROR
