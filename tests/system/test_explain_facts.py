"""What the report says beside the traceback: signals, memory, time, stderr, the other ranks."""

import os
import re
import signal
import time

import pytest

from procession import Logs, Outcome, Std
from support import METHODS, OBEDIENT, QUICK, failure_of, shell


def test_crash_in_native_code_shows_where(tmp_path):
    def work():
        import ctypes

        ctypes.string_at(0)

    logs = Logs(dir=tmp_path, redirect=Std.ERR)
    failed = failure_of(work, logs=logs)
    assert failed.cause.exit.signal == signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in str(failed)
    assert "in work" in str(failed)


@pytest.mark.parametrize("route", ["redirect", "tee", "prefix"])
def test_last_twenty_lines_of_stderr(tmp_path, route):
    program = shell("i=1; while [ $i -le 30 ]; do echo line $i >&2; i=$((i+1)); done; exit 3")
    logs = {
        "redirect": Logs(dir=tmp_path, redirect=Std.ALL),
        "tee": Logs(dir=tmp_path, tee=Std.ALL),
        "prefix": Logs(prefix="{rank}: "),
    }[route]
    failed = failure_of(program, logs=logs)
    assert failed.cause.stderr_tail == tuple(f"line {i}" for i in range(11, 31))
    text = str(failed)
    assert "last lines of stderr:\n    line 11\n" in text
    assert "    line 30" in text
    assert "line 10\n" not in text
    if route != "prefix":
        assert failed.cause.stderr_log in text


def test_peak_memory_and_cpu():
    def work():
        import time

        block = bytearray(200_000_000)
        for i in range(0, len(block), 4096):
            block[i] = 1
        start = time.process_time()
        while time.process_time() - start < 0.3:
            pass
        raise ValueError(len(block))

    failed = failure_of(work)
    assert 195e6 < failed.cause.peak_memory < 500e6
    assert 0.3 <= failed.cause.cpu_seconds < 3
    assert 0.3 <= failed.cause.seconds < 10
    line = str(failed).splitlines()[1]
    assert re.fullmatch(r"  exit code 1, peak memory \d+\.\d MB, CPU \d\.\d\d s", line), line


def test_a_failure_counts_from_when_it_was_raised_not_from_when_it_was_described(tmp_path):
    """Rank 0 raises first, and its exception takes long to print: rank 1 raises meanwhile."""

    def work(place):
        import os
        import time

        class Slow(Exception):
            def __str__(self):
                open(f"{place}/described", "w").close()
                end = time.monotonic() + 0.3
                while time.monotonic() < end:
                    pass
                return "slow to print"

        if os.environ["RANK"] == "0":
            raise Slow
        while not os.path.exists(f"{place}/described"):
            time.sleep(0.001)
        raise ValueError("a consequence")

    failed = failure_of(work, args=(str(tmp_path),), nproc=2, stop=OBEDIENT)
    assert failed.cause.rank == 0
    assert failed.cause.type_name.endswith("Slow")


def test_simultaneous_failures_are_all_shown():
    def work():
        at = float(os.environ["AT"])
        while time.monotonic() < at:
            pass
        raise ValueError("of " + os.environ["RANK"])

    for _ in range(3):  # a busy machine may keep them apart
        failed = failure_of(work, nproc=2, env={"AT": str(time.monotonic() + 0.3)})
        if len(failed.failures) == 2:
            break
    if len(failed.failures) < 2:
        pytest.skip("this machine did not run two ranks at the same time")
    apart = failed.failures[1].happened_at - failed.failures[0].happened_at
    assert ("simultaneous failures" in str(failed)) == (apart <= 1_000_000)
    if apart <= 1_000_000:
        assert "ValueError: of 0" in str(failed)


def test_failures_pickle_and_print():
    """GroupFailed may itself cross a process boundary, as from a pool."""
    import copy
    import pickle

    failed = failure_of(shell("exit 3"), nproc=2)
    for other in (pickle.loads(pickle.dumps(failed)), copy.copy(failed)):
        assert str(other) == str(failed)
        assert other.cause == failed.cause
    assert Outcome.EXITED is pickle.loads(pickle.dumps(failed.cause.outcome))


# -- what a rank told counts, whatever the group did to it then


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("end", "code"), [("raise", 1), ("exit", 3), ("interrupt", 130)])
def test_what_a_rank_told_counts_though_the_group_had_to_end_it(method, end, code):
    def work(end):
        import signal
        import sys
        import threading

        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        threading.Thread(target=threading.Event().wait).start()
        if end == "raise":
            raise ValueError("stuck")
        if end == "interrupt":
            raise KeyboardInterrupt
        sys.exit(3)

    failed = failure_of(work, args=(end,), start_method=method, stop=QUICK)
    assert failed.exit_code == code
    assert failed.cause.announced == code
    assert failed.cause.exit.signal == signal.SIGTERM
    assert "it did not exit then; the group ended it by SIGTERM" in str(failed)
