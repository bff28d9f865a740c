"""Who reads the command's standard input."""

import shlex
import subprocess

import pytest
from commandline import PROCESSION, Terminal, Watched, good

from support import write

READ = """
    import os, sys
    print("read", repr(sys.stdin.read()))
"""


@pytest.fixture
def script(tmp_path):
    return write(tmp_path / "read.py", READ)


@pytest.mark.parametrize(
    ("words", "reader"), [([], 0), (["--stdin", "2"], 2), (["--stdin", "none"], None)], ids=str
)
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_one_rank_reads_it(script, words, reader, method):
    out = good("-n", 3, "--start-method", method, *words, script, input="some text\n")
    wanted = [f"[{r}] read {'some text' + chr(10) if r == reader else ''!r}" for r in range(3)]
    assert sorted(out.splitlines()) == wanted


def test_single_rank(script):
    assert good(script, input="some text") == "read 'some text'\n"
    assert good("--stdin", "none", script, input="some text") == "read ''\n"
    assert good("-n", 2, "wc", "-c", input="x" * 1_000_000).count("[0] 1000000\n") == 1


def test_dialogue(tmp_path):
    script = write(
        tmp_path / "echo.py",
        """
        import sys
        for line in sys.stdin:
            print("heard", line.strip())
        """,
    )
    with Watched("run", "-n", 2, script, stdin=subprocess.PIPE) as watched:
        for word in (b"one", b"two", b"three"):
            watched.process.stdin.write(word + b"\n")
            watched.process.stdin.flush()
            watched.shows(b"[0] heard " + word)
        watched.process.stdin.close()
        assert watched.end() == 0


def test_waiting_input_does_not_hold_up_the_end(tmp_path):
    # Nobody reads, and whoever writes has not closed: the ranks end, and so does the command.
    with Watched("run", "-n", 2, "true", stdin=subprocess.PIPE) as watched:
        assert watched.end() == 0


@pytest.mark.parametrize(
    ("end", "read"), [("& wait", ""), ("", "for the rank\n")], ids=["background", "foreground"]
)
def test_terminal_is_left_to_the_shell_in_the_background(script, end, read, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    run = shlex.join([*PROCESSION, "run", "-n", "2", "--no-fold", str(script)])
    # With job control, as in an interactive shell: each job is a process group of its own.
    lines = f'set -m; {run} {end}; read line; echo "the shell read <$line>"'
    with Terminal("-c", lines, program=["/bin/bash"]) as terminal:
        if read:
            terminal.type(b"for the rank\n\x04")
        terminal.shows(f"[0] read {read!r}".encode(), b"[1] read ''")
        terminal.type(b"for the shell\n")
        terminal.shows(b"the shell read <for the shell>")
        assert terminal.end() == 0
