"""`procession.beat` and `procession.stopping` in real ranks, of every kind."""

import os
import sys

import pytest

import procession
from support import METHODS, until, write

SCRIPT = """
    import os, subprocess, sys, time
    import procession
    rank = int(os.environ["RANK"])
    child = "import procession; procession.beat(9, 10, child=1)"
    if rank == 2:
        subprocess.run([sys.executable, "-c", child], check=True)
    else:
        procession.beat(rank, 10, loss=0.5)
    while not procession.stopping():
        time.sleep(0.005)
    told = procession.stopping()
    assert 0 < told.seconds_left <= 20, told
    print("told", flush=True)
    """


def beats(group):
    return [rank["step"] for rank in group.look()["ranks"]]


def function(_):
    rank = int(os.environ["RANK"])
    procession.beat(rank, 10, loss=0.5)
    while not procession.stopping():
        pass
    return rank


@pytest.mark.parametrize("method", METHODS)
def test_functions_beat(method):
    with procession.start(function, args=(0,), nproc=2, start_method=method) as group:
        until(lambda: beats(group) == [0, 1])
        look = group.look()["ranks"][1]
        assert (look["total"], look["fields"], look["beats"]) == (10, {"loss": 0.5}, 1)
        assert look["beat_at"] >= look["started_at"]


@pytest.mark.parametrize("kind", ["script", "command"])
def test_scripts_and_children_beat(tmp_path, kind):
    path = write(tmp_path / "beat.py", SCRIPT)
    program = procession.Script(str(path)) if kind == "script" else [sys.executable, str(path)]
    stop = procession.Stop(grace=20)
    with procession.start(program, nproc=3, stop=stop) as group:
        until(lambda: beats(group) == [0, 1, 9])
