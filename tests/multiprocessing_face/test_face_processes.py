"""`.processes` and `.sentinels`, as those who know `multiprocessing` expect them."""

import multiprocessing
import os
import select
from multiprocessing import connection

import facework
import pytest
from facesupport import METHODS, ending, tidy  # noqa: F401

import procession.multiprocessing as mp
from support import alive, until


def start(fn, *args, nprocs=2, **options):
    return mp.start_processes(fn, args, nprocs=nprocs, join=False, **options)


@pytest.mark.parametrize("method", METHODS)
def test_a_running_process(method):
    group = start(facework.pause, start_method=method)
    with ending(group):
        assert group.pids() == [p.pid for p in group.processes]
        assert all(alive(pid) for pid in group.pids())
        assert len(set(group.pids())) == 2
        for process in group.processes:
            assert isinstance(process, multiprocessing.get_context(method).Process)
            assert process.is_alive()
            assert process.exitcode is None
            assert process.ident == process.pid
            assert process.daemon is False
            assert process.join(0.01) is None
            assert f"pid={process.pid} " in repr(process)
            assert "started" in repr(process)
            with pytest.raises(ValueError, match="still running"):
                process.close()
        assert set(group.processes) <= set(multiprocessing.active_children())


@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_has_ended(method):
    group = start(facework.nothing, start_method=method)
    for process in group.processes:
        process.join()
        assert not process.is_alive()
        assert process.exitcode == 0
        process.terminate()
        process.kill()
        assert "stopped exitcode=0" in repr(process)
    assert not set(group.processes) & set(multiprocessing.active_children())
    until(group.join)
    for process in group.processes:
        process.close()
        with pytest.raises(ValueError, match="closed"):
            process.is_alive()


@pytest.mark.parametrize(("how", "code"), [("terminate", -15), ("kill", -9)])
def test_to_end_a_process_is_its_failure(how, code):
    group = start(facework.pause)
    victim, other = group.processes
    getattr(victim, how)()
    victim.join()
    assert victim.exitcode == code
    assert other.is_alive()
    with pytest.raises(mp.ProcessExitedException) as caught:
        group.join()
    assert (caught.value.error_index, caught.value.exit_code) == (0, code)
    assert other.exitcode == -15


@pytest.mark.parametrize("method", METHODS)
def test_sentinels(method, tmp_path):
    group = start(facework.wait_for_gate, str(tmp_path), start_method=method)
    with ending(group):
        first, second = group.sentinels
        assert group.sentinels == {first: 0, second: 1}
        assert [p.sentinel for p in group.processes] == [first, second]
        assert connection.wait(group.sentinels, timeout=20) == [first]
        assert group.processes[0].exitcode == 0  # known as soon as it can be read
        assert select.select([second], [], [], 0) == ([], [], [])
        facework.note(tmp_path, "gate1")
        assert connection.wait([second], timeout=20) == [second]
        assert group.processes[1].exitcode == 0
        until(group.join)
        assert connection.wait([first, second], timeout=0) == [first, second]


def test_error_files_are_nowhere(tmp_path):
    """The original leaves its files in the temporary directory, when a rank raises."""
    group = start(facework.raise_in, 1)
    with pytest.raises(mp.ProcessRaisedException):
        group.join()
    assert group.error_files == ["", ""]
    assert os.listdir(os.environ["TMPDIR"]) == []
