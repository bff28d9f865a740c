"""Other launchers beside the rows of `make chaos`: how they are judged, and a trial of some."""

import os
import sys
from pathlib import Path

import pytest

from chaos import __main__ as command
from chaos import peers
from chaos.peers import tables
from chaos.peers.peer import Promise, Seen
from chaos.rows import NAMES, row_of
from support import run_python

ROOT = Path(__file__).parent.parent.parent
GOOD = Seen(code=1, text="", truly=(2, 1), named=frozenset({2}), ended=1.0, left={1: [], 10: []})
BAD = {
    "fails": {"code": 0},
    "names": {"named": frozenset({1})},
    "ends": {"ended": None},
    "empty": {"left": {1: ["ranks"], 10: []}},
    "lines": {"torn": 3},
}
ALL = Promise("It does all.", "https://example.org", tuple(BAD))


def run_peers(name, **variables):
    env = {**os.environ, "CHAOS": name, "CHAOS_SHORT": "1", "CHAOS_SLOW": "8"}
    env |= {"CHAOS_PEERS": sys.executable} | variables
    return run_python("-m", "chaos", cwd=ROOT, timeout=110, env=env)


def test_a_promise_that_is_kept():
    assert ALL.broken(GOOD) == []


@pytest.mark.parametrize("check", BAD)
def test_a_promise_that_is_broken(check):
    seen = Seen(**{**vars(GOOD), **BAD[check]})
    assert ALL.broken(seen) == [check]
    assert Promise().broken(seen) == []


def test_a_rank_that_is_named_beside_others_is_not_named():
    seen = Seen(**{**vars(GOOD), "named": frozenset({1, 2})})
    assert ALL.broken(seen) == ["names"]


def test_files_are_no_processes():
    seen = Seen(**{**vars(GOOD), "left": {1: ["temporary files", "shared memory"]}})
    assert ALL.broken(seen) == []


def test_a_late_end_on_a_slow_machine():
    seen = Seen(**{**vars(GOOD), "ended": 6.0})
    assert ALL.broken(seen) == ["ends"]
    assert ALL.broken(seen, slow=2.0) == []


@pytest.mark.parametrize("name", peers.PEERS)
def test_each_promise_has_a_source_and_a_check(name):
    peer = peers.peer_of(name)
    assert {*peer.promises} == {*peers.KINDS}
    for promise in peer.promises.values():
        assert bool(promise.words) == bool(promise.source) == bool(promise.checks)


SAYINGS = {
    "procession": "r.py failed: rank 2 of 4 (pid 7) was killed by SIGKILL",
    "torchrun": "  rank      : 0 (local_rank: 0)\nRoot Cause (first observed failure):\n[0]:\n"
    "  time      : now\n  host      : h\n  rank      : 2 (local_rank: 2)",
    "mp_spawn": "ProcessExitedException: process 2 terminated with exit code 3",
}


@pytest.mark.parametrize("name", SAYINGS)
def test_the_rank_that_is_named(name):
    peer = peers.peer_of(name)
    assert peer.named(SAYINGS[name]) == {2}
    assert peer.named("nothing of it") == set()


def test_names_of_rows():
    assert len(peers.names("peers")) == len(peers.PEERS) * len(peers.KINDS)
    assert peers.names("peers.mp_spawn.two") == ["peers.mp_spawn.two"]
    assert {name.split(".")[1] for name in peers.names("peers.mp_spawn")} == {"mp_spawn"}
    with pytest.raises(ValueError, match="there is no peer 'nobody'"):
        peers.names("peers.nobody")


def test_the_table():
    counts = {"kept": 2, "broken": 1, "broken: ends": 1, "named: right": 3, "not ended": 1}
    counts |= {"after 1 s: ranks": 3, "after 10 s: ranks": 1}
    figures = {"until the end": {"median": 1.25, "most": 2.0}}
    one = {"trials": 3, "counts": counts, "figures": figures, "day": "a day", "machine": "this"}
    lines = tables.tables({"peers.torchrun.fails": one}).splitlines()
    (line,) = [line for line in lines if "3 |" in line]
    assert line.startswith("| torchrun | On failures")
    wanted = "**2 of 3** (not ended in time: 1) | right 3 | 1.2 s, at most 2.0 s; "
    assert line.endswith(wanted + "**not ended: 1 of 3** | ranks 3 | ranks 1 |")
    assert "Linux this." in lines[0]


def test_trials_of_a_full_run():
    row = row_of("signals")
    assert command._trials(row, full=True, short=False) == 600
    assert command._trials(row, full=False, short=True) == row.short
    assert command._trials(row, full=False, short=False) == row.trials


def test_help_names_all():
    done = run_python("-m", "chaos", "--help", cwd=ROOT)
    assert done.returncode == 0
    for word in (*NAMES, *peers.PEERS, *peers.KINDS, "CHAOS_TRIALS", "--write"):
        assert word in done.stdout


def test_a_word_that_is_none():
    done = run_python("-m", "chaos", "--right", cwd=ROOT)
    assert done.returncode == 2
    assert "unknown: --right" in done.stderr


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["fails", "killed"])
def test_trials_of_procession_keep_its_promise(kind):
    done = run_peers(f"peers.procession.{kind}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kept: 1" in done.stdout


@pytest.mark.long
@pytest.mark.timeout(120)
def test_what_another_launcher_leaves_is_seen_and_ended():
    done = run_peers("peers.mp_spawn.killed", CHAOS_SLOW="2")  # it looks for 5 s times that
    if "not here: " in done.stdout:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after 10 s: children of ranks: 1" in done.stdout  # a fixture sees that it is gone


def test_a_launcher_that_is_not_installed_is_left_out(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    done = run_peers("peers.mp_spawn.fails", CHAOS_PEERS=str(python))
    assert done.returncode == 0
    assert "not here: torch is not installed in the environment of" in done.stdout
