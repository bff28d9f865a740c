"""A few trials of each row of `make chaos`; and the suite itself sees what goes wrong."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaos import compare
from chaos.rows import NAMES
from support import marked, run_python, until

ROOT = Path(__file__).parent.parent.parent
LIMITS = {  # a cluster starts
    "slurm": 150,
    "machines:ssh": 150,
    "machines:slurm": 150,
}


def run_chaos(name):
    """Run a row as `make chaos` does."""
    env = {**os.environ, "CHAOS_SLOW": "8"}
    limit = LIMITS.get(name, 60) - 5
    return run_python("-m", "chaos", name, "--trials", "2", cwd=ROOT, timeout=limit, env=env)


def limited(name):
    marks = [pytest.mark.timeout(LIMITS[name])] if name in LIMITS else []
    return pytest.param(name, marks=marks if name == "ranks_end" else [*marks, pytest.mark.long])


@pytest.mark.parametrize("name", [limited(name) for name in NAMES])
def test_a_few_trials(name):
    done = run_chaos(name)
    if "not here: " in done.stdout:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert " held, " in done.stdout


WRONG = """
import os, signal, subprocess, sys, threading
from chaos import runner, worker
from chaos.row import Row

def strike(trial):
    trial.do("something wrong")
    what = os.environ["WRONG"]
    if what == "process":
        left = subprocess.Popen(["sleep", "100"], start_new_session=True)
        while not open(f"/proc/{left.pid}/environ").read():  # for a moment, its exec has set none
            pass
    if what == "descriptor":
        os.open("/dev/zero", os.O_RDONLY)
    if what == "handler":
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    if what == "mask":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    if what == "thread":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    if what == "file":
        open(os.path.join(os.environ["TMPDIR"], "left"), "w").close()
    if what == "late":
        trial.took("until the end", 100.0, 1.0)
    if what == "hang":
        threading.Event().wait()
    if what == "launcher":
        os._exit(3)

ROW = Row("fault", "holds", 1, strike, limit=3.0)
worker.row_of = lambda name: ROW
if sys.argv[1:2] == ["row"]:
    worker.main()
else:
    runner.COMMAND = (sys.executable, __file__)
    told = runner.run_row("row", ROW, 1, 7)
    print("failed", len(told.failed), "of", told.trials)
"""
SAID = {
    "process": "left: process",
    "descriptor": "left: descriptor",
    "handler": "changed: the handler of SIGUSR2",
    "mask": "changed: the signal mask",
    "thread": "left: thread",
    "file": "left: tmp/left",
    "late": "until the end: 100.00 s, more than 1 s",
    "hang": "hung: no end after 3 s",
    "launcher": "the launcher ended: 3",
}


@pytest.mark.parametrize("wrong", SAID)
def test_what_is_wrong_is_seen(wrong, tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text(WRONG)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "WRONG": wrong}
    done = run_python(program, cwd=ROOT, timeout=50, env=env)
    assert "failed 1 of 1" in done.stdout, done.stdout + done.stderr
    assert SAID[wrong] in done.stdout
    assert "python -m chaos row --seed 7" in done.stdout


def test_a_row_that_is_not_there():
    done = run_chaos("nothing")
    assert done.returncode == 2
    assert "there is no row 'nothing'" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_when_it_is_told_to(tmp_path, number):
    """And leaves no process."""
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "chaos", "hangs", "--trials", "20"],
        cwd=ROOT,
        env=env,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    ) as chaos:
        until(lambda: list(tmp_path.glob("chaos-*/trial/done")))
        chaos.send_signal(number)
        chaos.wait(30)
        assert chaos.returncode != 0
    until(lambda: not marked(f"TMPDIR={tmp_path}"), 30)


def test_a_comparison_says_what_it_saw():
    assert compare._cell([("right", 1.0), ("wrong", 3.0)]) == (
        "1 of 2 named right, all gone after 2 s"
    )
    assert compare._cell([("", None)]) == "**processes left after 40 s in 1 of 1**"
    for name, said in {
        "procession run": "r.py failed: rank 2 of 4 (pid 7) was killed by SIGKILL",
        "torchrun": "Root Cause (first observed failure):\n[0]:\n  time: now\n  rank      : 2 (",
        "mp.spawn": "ProcessExitedException: process 2 terminated with exit code 3",
    }.items():
        found = re.search(compare.LAUNCHERS[name][1], said)
        assert compare._named(found, ["2", "0"]) == "right"
        assert compare._named(found, ["0", "2"]) == "wrong"


@pytest.mark.parametrize("fault", compare.FAULTS)
def test_what_is_compared_keeps_our_promise(fault):
    named, ended = compare.make_trial("procession run", fault, 1)
    assert named == ("right" if " fail" in fault else "")
    assert ended is not None
