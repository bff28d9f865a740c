"""Ranks that fail: what the result says of them. The original's faults stand in the comments."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from elasticwork import (
    die,
    die_in_value,
    fail,
    fail_on,
    give_unpicklable,
    interrupted,
    leave,
    leave_child,
    obey_slowly,
    quit_with,
)

import procession
from procession.elastic import DefaultLogsSpecs, ProcessFailure, Std, start_processes
from procession.elastic.errors import ChildFailedError
from support import PYTHON, gone, until, write


@pytest.fixture
def specs(tmp_path):
    return DefaultLogsSpecs(log_dir=str(tmp_path / "logs"))


def failed(entrypoint, args, specs, envs=None, **options):
    """Run ranks of which some fail; gives the failures by rank."""
    envs = {rank: {} for rank in args} if envs is None else envs
    pc = start_processes("work", entrypoint, args, envs, specs, **options)
    result = pc.wait(50)
    assert result.is_failed()
    assert result.return_values == {}
    assert (result.stdouts, result.stderrs) == (pc.stdouts, pc.stderrs)
    for rank, failure in result.failures.items():
        assert type(failure) is ProcessFailure
        assert (failure.local_rank, failure.pid) == (rank, pc.pids()[rank])
        assert abs(failure.timestamp - time.time()) < 60
    return result.failures


def by_rank(n=3):
    return {rank: {"RANK": str(rank)} for rank in range(n)}


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_an_exception(specs, method):
    failures = failed(fail, {0: ()}, specs, start_method=method)
    failure = failures[0]
    assert failure.exitcode == 1
    assert failure.signal_name() == "<N/A>"
    assert failure.error_file.endswith("/attempt_0/0/error.json")
    assert failure.error_file_data == json.loads(Path(failure.error_file).read_text())
    assert failure.message["message"] == "ValueError: no such batch"
    assert 'raise ValueError("no such batch")' in failure.message["extraInfo"]["py_callstack"]
    assert "ValueError: no such batch" in str(ChildFailedError("work", failures))


@pytest.mark.parametrize("kind", ["function", "program"])
def test_only_those_are_failures_that_failed_by_themselves(specs, kind):
    """The original lists ranks that it ended itself, when they end soon enough."""
    if kind == "function":
        args = dict.fromkeys(range(3), ("1", fail))
        failures = failed(fail_on, args, specs, by_rank())
    else:
        script = '[ "$RANK" = 1 ] && exit 3; exec sleep 60'
        failures = failed("sh", dict.fromkeys(range(3), ("-c", script)), specs, by_rank())
    assert failures.keys() == {1}
    assert failures[1].exitcode == (1 if kind == "function" else 3)


def test_the_first_failure_is_the_one_that_happened_first(specs, tmp_path):
    """Within one second, rank 1 before rank 0: the original blames rank 0."""
    seen = tmp_path / "seen"
    first = f"touch {seen}; exit 11"
    second = f"trap '' TERM; until [ -e {seen} ]; do sleep 0.01; done; sleep 0.2; exit 10"
    pc = start_processes("sh", "sh", {0: ("-c", second), 1: ("-c", first)}, {0: {}, 1: {}}, specs)
    failures = pc.wait().failures
    assert next(iter(failures)) == 1
    assert ChildFailedError("work", failures).get_first_failure()[0] == 1


def test_ended_by_a_signal(specs):
    failures = failed(die, {0: ()}, specs)
    assert failures[0].exitcode == -signal.SIGKILL
    assert failures[0].error_file == "<N/A>"
    assert failures[0].error_file_data == {"message": "<NONE>"}
    assert failures[0].message == f"Signal 9 (SIGKILL) received by PID {failures[0].pid}"


def test_a_program_that_exits_shows_the_end_of_its_stderr(tmp_path):
    """The original says where one can read how to enable tracebacks."""
    specs = DefaultLogsSpecs(str(tmp_path), redirects=Std.ERR)
    failure = failed("sh", {0: ("-c", "echo all is lost >&2; exit 138")}, specs)[0]
    assert failure.exitcode == 138
    assert failure.error_file == "<N/A>"
    assert failure.error_file_data["message"] == "<NONE>"
    assert "exited with code 138" in failure.message
    assert "all is lost" in failure.message
    assert "all is lost" in str(ChildFailedError("work", {0: failure}))


def test_a_python_program_without_record(tmp_path):
    script = write(tmp_path / "train.py", "raise ValueError('no such batch')\n")
    specs = DefaultLogsSpecs(str(tmp_path), tee=Std.ERR)
    failure = failed(PYTHON, {0: (script,)}, specs)[0]
    assert "Traceback (most recent call last)" in failure.message
    assert "ValueError: no such batch" in failure.message


def test_a_python_program_with_record(specs, tmp_path):
    script = write(
        tmp_path / "train.py",
        """
        from procession.elastic.errors import record

        @record
        def main():
            raise ValueError("no such batch")

        main()
        """,
    )
    failure = failed(PYTHON, {0: (script,)}, specs)[0]
    assert failure.message["message"] == "ValueError: no such batch"


def test_a_torn_error_file(specs):
    """The original raises out of `wait`."""
    script = 'printf \'{"message": {"mess\' > $TORCHELASTIC_ERROR_FILE; exit 7'
    failure = failed("sh", {0: ("-c", script)}, specs)[0]
    assert (failure.exitcode, failure.error_file) == (7, "<N/A>")
    assert "exited with code 7" in failure.message


def test_a_function_that_exits(specs):
    failure = failed(quit_with, {0: (138,)}, specs)[0]
    assert (failure.exitcode, failure.error_file) == (138, "<N/A>")
    assert "exited with code 138" in failure.message


def test_a_function_that_exits_with_0_returns_none(specs):
    pc = start_processes("work", quit_with, {0: (0,)}, {0: {}}, specs)
    assert pc.wait().return_values == {0: None}


def test_a_function_that_is_left_without_returning(specs):
    """In the original, `os._exit(0)` is waited for without end."""
    failure = failed(leave, {0: ()}, specs)[0]
    assert failure.exitcode == 0
    assert "rank 0" in failure.message
    assert "exited with code 0 before its function had returned" in failure.message


def test_a_value_that_cannot_be_pickled(specs):
    """In the original, this is waited for without end."""
    args = {0: (), 1: ()}
    failure = failed(give_unpicklable, args, specs).popitem()[1]
    assert f"rank {failure.local_rank} of 2" in failure.message
    assert "returned a dict that cannot be pickled" in failure.message


def test_a_value_that_cannot_be_unpickled_here(specs, tmp_path):
    pc = start_processes("work", _value_of_a_lost_module, {0: (str(tmp_path),)}, {0: {}}, specs)
    with pytest.raises(procession.ProcessionError, match="value of rank 0 cannot be unpickled"):
        pc.wait()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def _value_of_a_lost_module(place):
    import importlib
    import sys

    Path(place, "only_there.py").write_text("class Value: pass\n")
    sys.path.insert(0, place)
    return importlib.import_module("only_there").Value()


def test_killed_while_the_value_is_on_its_way(specs):
    """In the original, this is waited for without end."""
    failure = failed(die_in_value, {0: ()}, specs)[0]
    assert failure.message == f"Signal 9 (SIGKILL) received by PID {failure.pid}"


def test_an_interrupted_function(specs):
    failure = failed(interrupted, {0: ()}, specs)[0]
    assert "KeyboardInterrupt" in str(ChildFailedError("work", {0: failure}))


def test_what_a_rank_started_goes_with_it(specs, tmp_path):
    """In the original, children of functions survive; this one does not even obey."""
    pc = start_processes("work", leave_child, {0: (str(tmp_path / "pid"),)}, {0: {}}, specs)
    text = until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pc.close(timeout=1)
    gone([int(text)])


def test_a_sibling_that_does_not_obey_is_killed_in_the_end(specs, tmp_path):
    deaf = str(tmp_path / "deaf")
    args = {0: (deaf,), 1: (str(tmp_path / "other"),)}
    pc = start_processes("work", obey_slowly, args, {0: {}, 1: {}}, specs)
    until(Path(deaf).exists)
    os.kill(pc.pids()[1], signal.SIGKILL)
    until(Path(deaf + ".term").exists)
    pc.close(timeout=1)
    assert pc.wait().failures.keys() == {1}
