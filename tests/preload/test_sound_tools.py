"""Tools that look into a program: the debugger, faulthandler."""

import os
from pathlib import Path

import procession
from cli.commandline import Terminal
from cli.debugging import Debugging
from support import failure_of, write

DEBUGGED = """
import json
import os
import pdb
import logging


def inner(x):
    y = x + 1
    if os.environ["RANK"] == "0":
        breakpoint()
    return y


print("got", inner(1))
"""


def test_the_debugger(tmp_path):
    path = write(tmp_path / "main.py", DEBUGGED)
    told = []
    for preload in (["--preload", "none"], []):
        words = ["run", "-n", "2", *preload, "--local-ranks-filter", "0", path]
        with Terminal(
            *words, env={**os.environ, "PYTHONBREAKPOINT": "pdb.set_trace", "OMP_NUM_THREADS": "1"}
        ) as terminal:
            person = Debugging(terminal)
            lines = ("p x + 40", "up", "list 18", "!y = 3", "down", "!y = 7")
            said = [person.prompt(), *map(person.type, lines)]
            terminal.type(b"continue\n")
            assert terminal.end() == 0
            assert any("got 7" in line for line in terminal.lines)
        told.append(said)
    assert told[0] == told[1]
    assert "\n41\n" in told[1][1][0]


CRASH = """
import ctypes
import json


def crash():
    ctypes.string_at(0)


crash()
"""


def test_a_crash_names_the_line(tmp_path):
    program = procession.Script(str(write(tmp_path / "main.py", CRASH)))
    told = []
    for preload in (None, "auto"):
        logs = procession.Logs(dir=tmp_path / "logs", redirect=procession.Std.ALL)
        failed = failure_of(program, nproc=1, preload=preload, logs=logs)
        text = Path(failed.cause.stderr_log).read_text()
        told.append([line for line in text.splitlines() if 'main.py", line' in line])
    assert told[0] == told[1]
    assert 'main.py", line 6 in crash' in told[1][0]
