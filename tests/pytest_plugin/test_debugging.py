"""`--pdb`: pytest's post-mortem of the rank that failed first, on the terminal."""

import contextlib
import os
import sys
import textwrap

import pytest
from pytestruns import QUIET, run

from cli.commandline import Terminal
from cli.debugging import Debugging
from support import until

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
    with _session(tmp_path, TESTS, "--pdb", *how) as terminal:

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


def _session(directory, tests, *words):
    """Give pytest on a terminal."""
    (directory / "test_a.py").write_text(textwrap.dedent(tests))
    (directory / "pytest.ini").touch()
    words = [*QUIET, "--color=no", f"--basetemp={directory}/base", *words]
    return Terminal(*words, program=[sys.executable, "-m", "pytest"], cwd=directory)


def test_to_leave_the_debugger_ends_the_session(tmp_path):
    with _session(tmp_path, TESTS, "--pdb") as terminal:
        terminal.shows(b"rank 1 of 3 failed first", b"(Pdb) ", patience=40)
        terminal.type(b"q\n")
        assert terminal.end() == pytest.ExitCode.INTERRUPTED
        assert b"Exit: Quitting debugger" in terminal.text()
        assert b"1 failed" in terminal.text()


def test_without_a_terminal_the_session_goes_on(tmp_path):
    found = run(tmp_path, "--pdb", "-k", "not without_ranks", test_a=TESTS)
    assert "(Pdb)" not in found.text
    assert "4 failed, 1 passed, 1 deselected" in found.text


def test_breakpoints_of_several_ranks(tmp_path):
    tests = """
        import pytest

        @pytest.mark.ranks(3)
        def test_stops(rank, gather):
            secret = 40 + rank
            breakpoint()
            assert gather(secret) == [40, 41, 42]
    """
    with _session(tmp_path, tests) as terminal:
        debugging = Debugging(terminal)
        _, first = debugging.prompt()
        asked = f"p secret * 1000 + {first}"
        assert debugging.type(asked)[0].endswith(f"\n{(40 + first) * 1000 + first}\n")
        until(lambda: debugging.type("ranks")[0].count(": waits") == 3, "all to stop", 60)
        terminal.type(b"all c\n")
        assert terminal.end() == pytest.ExitCode.OK


def test_what_ranks_say_is_heard_between_two_lines(tmp_path):
    """A rank that comes late is told what to run; what all wait for comes to its end."""
    tests = """
        import pytest

        @pytest.mark.ranks(3)
        def test_stops(rank, gather):
            if rank == 0:
                breakpoint()
            values = gather(rank)
            assert values == [0, 1, 2]
    """
    with _session(tmp_path, tests) as terminal:
        debugging = Debugging(terminal)
        shown, _ = debugging.prompt()
        if "-> breakpoint()" in shown:  # since Python 3.13
            debugging.type("n")
        debugging.type("n")
        assert "[0, 1, 2]\n" in debugging.type("p values")[0]
        terminal.type(b"c\n")
        assert terminal.end() == pytest.ExitCode.OK


def test_several_ranks_cannot_be_traced(tmp_path):
    found = run(tmp_path, "--trace", test_a=TESTS)
    assert "test_a.py::test_one is several at once" in found.text
    assert found.code == pytest.ExitCode.USAGE_ERROR
