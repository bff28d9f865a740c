"""What `join` raises, and what it takes for a good end."""

import os
import pickle
import signal

import facework
import pytest
from facesupport import METHODS, tidy  # noqa: F401

import procession
import procession.multiprocessing as mp


def join(group, **options):
    while not group.join(**options):
        pass


def failure_of(fn, *args, kind, **options):
    options = {"nprocs": 2, **options}
    with pytest.raises(mp.ProcessException) as caught:
        mp.start_processes(fn, args, **options)
    assert type(caught.value) is kind, caught.value
    return caught.value


@pytest.mark.parametrize("method", METHODS)
def test_an_exception(method):
    error = failure_of(facework.raise_in, 1, kind=mp.ProcessRaisedException, start_method=method)
    head, _, traceback = str(error).partition("error:\n")
    assert head == "\n\n-- Process 1 terminated with the following "
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert "in raise_in\n" in traceback
    assert os.path.dirname(mp.__file__) not in traceback
    assert traceback.endswith("\nValueError: no such batch 1\n")
    assert error.msg == str(error)
    assert error.error_index == 1
    assert error.pid == error.error_pid > 0


def test_the_exception_itself_is_the_cause():
    error = failure_of(facework.raise_in, 0, kind=mp.ProcessRaisedException)
    assert type(error.__cause__) is ValueError
    assert error.__cause__.args == ("no such batch 0",)


@pytest.mark.parametrize("method", METHODS)
def test_an_exit_code(method):
    error = failure_of(
        facework.exit_in, 1, 123, kind=mp.ProcessExitedException, start_method=method
    )
    assert str(error) == error.msg == "process 1 terminated with exit code 123"
    assert (error.error_index, error.exit_code, error.signal_name) == (1, 123, None)
    assert error.pid == error.error_pid > 0


def test_an_exit_with_a_text(capfd):
    error = failure_of(facework.exit_in, 0, "no licence", kind=mp.ProcessExitedException)
    assert str(error) == "process 0 terminated with exit code 1"
    assert "no licence" in capfd.readouterr().err


@pytest.mark.parametrize("method", METHODS)
def test_a_signal(method):
    args = (0, int(signal.SIGABRT))
    error = failure_of(
        facework.signal_in, *args, kind=mp.ProcessExitedException, start_method=method
    )
    assert str(error) == error.msg == "process 0 terminated with signal SIGABRT"
    assert (error.error_index, error.exit_code, error.signal_name) == (0, -6, "SIGABRT")


def test_a_signal_without_a_name():
    number = signal.SIGRTMIN + 3
    error = failure_of(facework.signal_in, 1, int(number), kind=mp.ProcessExitedException)
    assert str(error) == f"process 1 terminated with signal <Unknown signal {number}>"
    assert error.signal_name == f"<Unknown signal {number}>"


def test_the_full_report_of_a_process_that_ended_is_the_cause():
    error = failure_of(facework.signal_in, 0, 9, kind=mp.ProcessExitedException)
    assert type(error.__cause__) is procession.GroupFailed
    assert "rank 0 of 2" in str(error.__cause__)
    assert "was killed by SIGKILL" in str(error.__cause__)


@pytest.mark.parametrize("method", METHODS)
def test_a_keyboard_interrupt_is_a_failure(method, capfd):
    """Until torch 2.15, the original took it for a good end."""
    error = failure_of(
        facework.interrupted_in, 1, kind=mp.ProcessRaisedException, start_method=method
    )
    assert str(error).startswith("\n\n-- Process 1 terminated with the following error:\nTraceback")
    assert "in interrupted_in\n" in str(error)
    assert str(error).endswith("\nKeyboardInterrupt\n")
    assert error.error_index == 1
    assert "KeyboardInterrupt" not in capfd.readouterr().err  # it is quiet, as there


@pytest.mark.parametrize("code", [None, 0])
def test_exit_with_code_0_is_a_good_end(code):
    assert mp.spawn(facework.nothing_but_exit, args=(code,), nprocs=2) is None


@pytest.mark.parametrize("method", METHODS)
def test_os_exit_with_code_0_is_a_good_end(method):
    for nprocs in (2, 1):
        ended = mp.start_processes(facework.exit_hard_in, (0, 0), nprocs, start_method=method)
        assert ended is None


def test_a_failure_after_an_os_exit_with_code_0(tmp_path):
    """What the core takes for the first failure is none here."""
    error = failure_of(facework.exit_hard_or_fail, str(tmp_path), kind=mp.ProcessRaisedException)
    assert error.error_index == 1


def test_os_exit_with_another_code():
    error = failure_of(facework.exit_hard_in, 1, 3, kind=mp.ProcessExitedException)
    assert error.exit_code == 3


@pytest.mark.parametrize("method", METHODS)
def test_values_are_dropped(method):
    dropped = facework.return_what_cannot_be_pickled
    assert mp.start_processes(dropped, nprocs=2, start_method=method) is None


def test_a_failure_is_known_before_its_process_has_ended(tmp_path):
    """The original waits for exit handlers, which may wait for the others."""
    error = failure_of(facework.fail_and_linger, str(tmp_path), kind=mp.ProcessRaisedException)
    assert error.error_index == 1


@pytest.mark.parametrize("method", METHODS)
def test_who_takes_its_time_to_exit_is_told_by_its_exit_code(method):
    args, kind = (123, 1.5), mp.ProcessExitedException
    with pytest.raises(kind, match="process 0 terminated with exit code 123") as caught:
        mp.start_processes(facework.exit_slowly, args, nprocs=2, start_method=method)
    assert caught.value.exit_code == 123


def test_who_never_comes_to_its_end_is_told_by_the_exit_code_that_it_had_told():
    group = mp.spawn(facework.exit_slowly, (123, 1000), nprocs=2, join=False)
    with pytest.raises(mp.ProcessExitedException, match="exit code 123"):
        join(group, grace_period=0.5)
    assert group.processes[0].exitcode == 123
    assert group.processes[1].exitcode == -signal.SIGTERM


def test_an_exception_of_another_base():
    """The original says no more of it than exit code 1; here it has its traceback."""
    error = failure_of(facework.raise_base, kind=mp.ProcessRaisedException)
    assert "facework.Unusual: so it goes" in str(error)


def test_the_first_failure_is_told(tmp_path):
    """The original takes the one whose process it happens to look at first."""
    group = mp.spawn(facework.fail_in_order, (str(tmp_path),), nprocs=2, join=False)
    for process in group.processes:
        process.join()
    with pytest.raises(mp.ProcessRaisedException, match="first") as caught:
        group.join()
    assert caught.value.error_index == 1


@pytest.mark.parametrize(
    "error",
    [
        mp.ProcessException("a", 1, 2),
        mp.ProcessRaisedException("a", 1, 2),
        mp.ProcessExitedException("a", 1, 2, 3),
        mp.ProcessExitedException("a", error_index=1, error_pid=2, exit_code=-9, signal_name="S"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_pickling(error, protocol):
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is type(error)
    assert again.args == error.args == ("a",)
    assert vars(again) == vars(error)


def test_kinds():
    assert issubclass(mp.ProcessRaisedException, mp.ProcessException)
    assert issubclass(mp.ProcessExitedException, mp.ProcessException)
    assert issubclass(mp.ProcessException, Exception)
