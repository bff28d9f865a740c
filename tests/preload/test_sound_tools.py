"""Tools that look into a program: the debugger, coverage, faulthandler, tracing, profiles."""

import glob
import os
from pathlib import Path

import pytest
from sides import ranks, script

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


COVERED = """
import json
import logging
import os

def called(n):
    if n:
        return 1
    return 2

class Never:
    def called(self):
        return 3

seen = {"n": called(int(os.environ["RANK"]))}
"""


def test_coverage_of_ranks(tmp_path):
    """As `coverage` measures child processes: begun by a `.pth` file, or `sitecustomize`."""
    pytest.importorskip("coverage")
    lines = {}
    for name, preload in (("cold", None), ("auto", "auto")):
        directory = tmp_path / name
        program = procession.Script(str(script(directory, COVERED)))
        start = "import coverage; coverage.process_startup()"
        write(directory / "lib" / "sitecustomize.py", start)
        data = directory / "data"
        config = f"[run]\ndata_file = {data}/of\nparallel = true\nsource = {directory}\n"
        write(data / "rc", config)
        env = {"COVERAGE_PROCESS_START": str(data / "rc"), "PYTHONPATH": str(directory / "lib")}
        found = ranks(program, directory, env=env, preload=preload)
        assert [r.early for r in found] == [name == "auto"] * 2
        assert len(glob.glob(f"{data}/of.*")) >= 2
        lines[name] = set().union(*map(measured, glob.glob(f"{data}/of.*")))
    assert lines["cold"] == lines["auto"]
    assert {6, 7, 8} <= lines["auto"]
    assert 12 not in lines["auto"]


def measured(file):
    """Give the lines of main.py that a data file of coverage has."""
    from coverage import CoverageData

    data = CoverageData(file)
    data.read()
    return {n for f in data.measured_files() if f.endswith("main.py") for n in data.lines(f)}


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
