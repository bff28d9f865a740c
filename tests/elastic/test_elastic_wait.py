"""Waiting for ranks, and ending them."""

import os
import signal
import time

import pytest
from elasticwork import block, fail, return_one_after_the_other

from procession.elastic import DefaultLogsSpecs, start_processes
from support import alive, gone, until


@pytest.fixture
def specs(tmp_path):
    return DefaultLogsSpecs(log_dir=str(tmp_path / "logs"))


# -- waiting


def test_wait_0_is_one_look(specs, tmp_path):
    pc = start_processes("sh", "sh", {0: ("-c", f"echo > {tmp_path}/on; sleep 60")}, {0: {}}, specs)
    until((tmp_path / "on").exists)
    assert pc.wait(0) is None
    assert pc.wait(timeout=0.05, period=0.01) is None
    os.kill(pc.pids()[0], signal.SIGKILL)
    assert until(lambda: pc.wait(0)).is_failed()


def test_wait_returns_as_soon_as_it_is_known(specs):
    """The original sleeps whole periods."""
    pc = start_processes("sleep", "sleep", {0: ("0.2",)}, {0: {}}, specs)
    begin = time.monotonic()
    assert not pc.wait(timeout=100, period=50).is_failed()
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_ranks_of_a_function_exit_when_all_have_returned(specs, tmp_path, method):
    """Else the last ones may lose a peer with which they just connect."""
    args = {0: (str(tmp_path),), 1: (str(tmp_path),)}
    envs = {rank: {"RANK": str(rank)} for rank in args}
    pc = start_processes("x", return_one_after_the_other, args, envs, specs, start_method=method)
    assert not pc.wait().is_failed()
    assert (tmp_path / "as it exits").read_text() == "True"


def return_or(what):
    if os.environ["RANK"] == "0":
        return
    what()


@pytest.mark.parametrize("end", [fail, block])
def test_a_rank_that_has_returned_does_not_outlive_the_others(specs, end):
    envs = {rank: {"RANK": str(rank)} for rank in range(2)}
    pc = start_processes("x", return_or, {0: (end,), 1: (end,)}, envs, specs, start_method="fork")
    if end is block:
        assert pc.wait(0.2) is None
        pc.close()
    else:
        assert list(pc.wait().failures) == [1]
    gone(pc.pids().values())


def test_a_failure_ends_the_group_although_nobody_waits(specs):
    pc = start_processes(
        "sh", "sh", {0: ("-c", "sleep 60"), 1: ("-c", "exit 2")}, {0: {}, 1: {}}, specs
    )
    gone(pc.pids().values())
    assert pc.wait().failures.keys() == {1}


# -- closing


@pytest.mark.parametrize("entrypoint", [block, "sleep"])
def test_close_ends_everything(specs, entrypoint):
    args = {0: ("60",), 1: ("60",)} if entrypoint == "sleep" else {0: (), 1: ()}
    pc = start_processes("work", entrypoint, args, {0: {}, 1: {}}, specs)
    pids = pc.pids()
    assert pids.keys() == {0, 1}
    assert all(alive(pid) for pid in pids.values())
    pc.close()
    assert not any(alive(pid) for pid in pids.values())
    assert pc.pids() == pids
    pc.close()


def test_close_with_a_signal_of_ones_own(specs, tmp_path):
    on_int = f"trap 'echo > {tmp_path}/int; exit 5' INT"
    trap = f"{on_int}; echo > {tmp_path}/on; while :; do sleep 0.01; done"
    pc = start_processes("sh", "sh", {0: ("-c", trap)}, {0: {}}, specs)
    until((tmp_path / "on").exists)
    pc.close(signal.SIGINT)
    assert (tmp_path / "int").exists()
    assert pc.wait().failures[0].exitcode == 5


def test_close_kills_what_does_not_obey_in_time(specs, tmp_path):
    deaf = f"trap '' TERM; echo > {tmp_path}/on$0; while :; do sleep 1; done"
    pc = start_processes("sh", "sh", {r: ("-c", deaf, r) for r in range(2)}, {0: {}, 1: {}}, specs)
    until(lambda: len(list(tmp_path.glob("on*"))) == 2)
    pc.close(timeout=1)
    assert pc.wait().failures[0].exitcode == -signal.SIGKILL


def test_what_close_ended_is_no_success(specs):
    pc = start_processes("sleep", "sleep", {0: ("60",)}, {0: {}}, specs)
    pc.close()
    result = pc.wait()
    assert result.is_failed()
    assert result.failures[0].message == f"Signal 15 (SIGTERM) received by PID {pc.pids()[0]}"
    assert not result.return_values
