"""`ProcessContext.join`: what it waits for, what it returns, and how it ends the others."""

import logging

import facework
import pytest
from facesupport import METHODS, ending, tidy  # noqa: F401

import procession.multiprocessing as mp
from support import until

LOG = "procession.multiprocessing.spawn"


def start(fn, *args, nprocs=2, **options):
    return mp.start_processes(fn, args, nprocs=nprocs, join=False, **options)


def test_true_when_all_are_joined_and_ever_after():
    group = start(facework.nothing)
    until(group.join)
    assert group.join() is True
    assert group.join(timeout=0) is True
    assert group.sentinels == {}
    assert [p.exitcode for p in group.processes] == [0, 0]


def test_false_as_soon_as_one_has_ended_and_more_remain(tmp_path):
    group = start(facework.wait_for_gate, str(tmp_path))
    with ending(group):
        assert group.join() is False
        assert list(group.sentinels.values()) == [1]
        facework.note(tmp_path, "gate1")
        until(group.join)


@pytest.mark.parametrize("timeout", [-1, 0, 0.05])
def test_false_after_the_timeout(timeout):
    group = start(facework.pause)
    with ending(group):
        assert group.join(timeout=timeout) is False
        assert group.join(timeout) is False
        assert len(group.sentinels) == 2
        assert all(p.is_alive() for p in group.processes)


def test_sigterm_at_once_without_a_grace_period(tmp_path, caplog):
    group = start(facework.fail_or_obey, str(tmp_path))
    with caplog.at_level(logging.INFO, LOG), pytest.raises(mp.ProcessRaisedException):
        group.join()
    assert (tmp_path / "signal").read_text() == "SIGTERM"
    assert group.processes[0].exitcode == 0
    expected = f"Terminating process {group.pids()[0]} via signal SIGTERM"
    assert caplog.record_tuples == [(LOG, logging.WARNING, expected)]


def test_others_may_end_by_themselves_within_the_grace_period(tmp_path, caplog):
    group = start(facework.fail_or_save, str(tmp_path))
    with pytest.raises(mp.ProcessRaisedException, match="no such batch"):
        group.join(grace_period=30)
    assert (tmp_path / "saved").exists()
    assert group.processes[0].exitcode == 0
    assert caplog.record_tuples == []


def test_sigkill_after_another_grace_period(tmp_path, caplog):
    group = start(facework.fail_or_resist, str(tmp_path))
    with pytest.raises(mp.ProcessRaisedException):
        group.join(grace_period=0.3)
    assert group.processes[0].exitcode == -9
    pid = group.pids()[0]
    assert caplog.messages == [f"Terminating process {pid} via signal SIGTERM"]


def test_nobody_is_ended_while_nobody_joins(tmp_path):
    """So that `join(grace_period=...)` finds them alive, however late it comes."""
    group = start(facework.fail_or_wait_for_gate, str(tmp_path))
    with ending(group):
        until(lambda: group.processes[1].exitcode == 1)
        assert group.processes[0].is_alive()
        facework.note(tmp_path, "gate0")
        until(lambda: group.processes[0].exitcode == 0)
        assert (tmp_path / "saved").exists()
        with pytest.raises(mp.ProcessRaisedException, match="no such batch"):
            group.join()


def test_no_processes_and_the_old_name():
    assert mp.ProcessContext([], []).join() is True
    with pytest.warns(UserWarning, match="is renamed to ProcessContext since 1.4 release"):
        assert isinstance(mp.SpawnContext([], []), mp.ProcessContext)
