"""Tools that look into a program: the debugger, faulthandler."""

import os
from pathlib import Path

import procession
from support import failure_of, run_procession, write

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
    for words in (["run", "-n", "2", "--preload", "none"], ["run", "-n", "2"]):
        done = run_procession(
            *(*words, "--prefix", "", "--local-ranks-filter", "0", path),
            input="p x + 40\nup\nlist 18\n!y = 3\ndown\n!y = 7\ncontinue\n",
            env={**os.environ, "PYTHONBREAKPOINT": "pdb.set_trace"},
        )
        told.append((done.returncode, done.stdout))
    assert told[0] == told[1]
    assert told[1][0] == 0
    assert "(Pdb) 41" in told[1][1]


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
