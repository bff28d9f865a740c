"""What `join` raises, and what it takes for a good end."""

import os
import pickle
import signal

import facework
import pytest
from facesupport import METHODS, tidy  # noqa: F401

import procession
import procession.multiprocessing as mp

UNNAMED = int(signal.SIGRTMIN) + 3
# What two ranks do, who fails, with which exit code and signal, and what is said; the end of it,
# below its traceback, for an exception.
RAISED = {
    "an exception": (facework.raise_in, (1,), 1, "ValueError: no such batch 1\n"),
    "an exception of another base": (facework.raise_base, (), 0, "facework.Unusual: so it goes\n"),
    "an interrupt": (facework.interrupted_in, (1,), 1, "\nKeyboardInterrupt\n"),
}
EXITED = {
    "an exit code": (facework.exit_in, (1, 123), 1, 123, None, "exit code 123"),
    "a text": (facework.exit_in, (0, "no licence"), 0, 1, None, "exit code 1"),
    "os._exit": (facework.exit_hard_in, (1, 3), 1, 3, None, "exit code 3"),
    "a signal": (facework.signal_in, (0, 6), 0, -6, "SIGABRT", "signal SIGABRT"),
    "a signal without a name": (
        *(facework.signal_in, (1, UNNAMED), 1, -UNNAMED),
        *[f"{before}<Unknown signal {UNNAMED}>" for before in ("", "signal ")],
    ),
}
GOOD = {
    "exit code None": (facework.nothing_but_exit, (None,)),
    "exit code 0": (facework.nothing_but_exit, (0,)),
    "os._exit(0)": (facework.exit_hard_in, (0, 0)),
    "values, which are dropped": (facework.return_what_cannot_be_pickled, ()),
}


def failure_of(fn, *args, kind, **options):
    options = {"nprocs": 2, **options}
    with pytest.raises(mp.ProcessException) as caught:
        mp.start_processes(fn, args, **options)
    assert type(caught.value) is kind, caught.value
    return caught.value


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("what", RAISED)
def test_an_exception(method, what, capfd):
    """Of those that are no Exception, the original tells less, or nothing until torch 2.15."""
    fn, args, index, last = RAISED[what]
    error = failure_of(fn, *args, kind=mp.ProcessRaisedException, start_method=method)
    head, _, traceback = str(error).partition("error:\n")
    assert head == f"\n\n-- Process {index} terminated with the following "
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert f"in {fn.__name__}\n" in traceback
    assert traceback.endswith(last)
    assert os.path.dirname(mp.__file__) not in traceback
    assert error.msg == str(error)
    assert error.error_index == index
    assert error.pid == error.error_pid > 0
    assert f"{type(error.__cause__).__name__}" in last
    if what == "an interrupt":
        assert "KeyboardInterrupt" not in capfd.readouterr().err  # it is quiet, as there


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("what", EXITED)
def test_an_exit(method, what, capfd):
    fn, args, index, code, name, said = EXITED[what]
    error = failure_of(fn, *args, kind=mp.ProcessExitedException, start_method=method)
    assert str(error) == error.msg == f"process {index} terminated with {said}"
    assert (error.error_index, error.exit_code, error.signal_name) == (index, code, name)
    assert error.pid == error.error_pid > 0
    assert type(error.__cause__) is procession.GroupFailed  # the full report
    assert f"rank {index} of 2" in str(error.__cause__)
    assert ("no licence" in capfd.readouterr().err) == (what == "a text")


@pytest.mark.parametrize("method", METHODS)
def test_a_good_end(method):
    for fn, args in GOOD.values():
        for nprocs in (2, 1):
            assert mp.start_processes(fn, args, nprocs, start_method=method) is None


def test_a_failure_is_known_before_its_process_has_ended(tmp_path):
    """The original waits for exit handlers, which may wait for the others."""
    error = failure_of(facework.fail_and_linger, str(tmp_path), kind=mp.ProcessRaisedException)
    assert error.error_index == 1


def test_the_first_failure_is_told(tmp_path):
    """The original takes the one whose process it happens to look at first."""
    group = mp.spawn(facework.fail_in_order, (str(tmp_path),), nprocs=2, join=False)
    for process in group.processes:
        process.join()
    with pytest.raises(mp.ProcessRaisedException, match="first") as caught:
        group.join()
    assert caught.value.error_index == 1


def test_pickling_and_kinds():
    for error in (
        mp.ProcessException("a", 1, 2),
        mp.ProcessRaisedException("a", 1, 2),
        mp.ProcessExitedException("a", error_index=1, error_pid=2, exit_code=-9, signal_name="S"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert again.args == error.args == ("a",)
        assert vars(again) == vars(error)
        assert isinstance(error, mp.ProcessException)
