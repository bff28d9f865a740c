"""Ranks of every kind, by every start method, end in every way, whatever becomes of their output.

One launch for each row: nothing of it is left, all that was written is there, and what is told of
the end is true. `make test` runs each kind with each way once, and each output with both.
"""

import itertools
import os
import signal
from pathlib import Path

import endwork
import pytest

import procession
from procession import GroupFailed, Logs, Module, Outcome, Phase, Script, Std, Stop
from support import PYTHON, START_PATIENCE, gone, reader_of, until

KINDS = {
    "function": (endwork.end, "forkserver"),
    "spawned function": (endwork.end, "spawn"),
    "forked function": (endwork.end, "fork"),
    "script": (Script(endwork.__file__), "forkserver"),
    "spawned script": (Script(endwork.__file__), "spawn"),
    "module": (Module("endwork"), "forkserver"),
    "command": ([PYTHON, endwork.__file__], "forkserver"),
}
GOOD = ("pass", "sys.exit()", "sys.exit(256)")
# Outcome, exit code or signal of the process, exit code of the command, and words of the report.
FAILURES = {
    "sys.exit(3)": (Outcome.EXITED, 3, 3, "exited with code 3"),
    "sys.exit(-1)": (Outcome.EXITED, 255, 255, "exited with code 255"),
    "sys.exit('no licence')": (Outcome.EXITED, 1, 1, "no licence"),
    "os._exit(3)": (Outcome.EXITED, 3, 3, "exited with code 3"),
    "raise ValueError('no data')": (Outcome.RAISED, 1, 1, "ValueError: no data"),
    "raise KeyboardInterrupt": (Outcome.INTERRUPTED, -2, 130, "interrupted"),
    "os.kill(os.getpid(), 9)": (Outcome.SIGNALLED, -9, 137, "was killed by SIGKILL"),
    "os.kill(os.getpid(), 11)": (Outcome.SIGNALLED, -11, 139, "was killed by SIGSEGV"),
    "os.kill(os.getpid(), 10)": (Outcome.SIGNALLED, -10, 138, "was killed by SIGUSR1"),
}
REQUESTS = {"stop": signal.SIGTERM, "kill": signal.SIGKILL, "ignore": signal.SIGKILL}
OUTPUTS = {
    "prefixed": Logs(prefix="{rank}|"),
    "in files": Logs(redirect=Std.ALL),
    "in both": Logs(tee=Std.ALL, prefix="{rank}|"),
}


def rows():
    ways = [*GOOD, "os._exit(0)", *FAILURES, *REQUESTS]
    for (k, kind), (w, way), (n, output) in itertools.product(
        enumerate(KINDS), enumerate(ways), enumerate(OUTPUTS)
    ):
        often = (k + w) % len(OUTPUTS) == n
        yield pytest.param(kind, way, output, marks=() if often else pytest.mark.long)


@pytest.mark.parametrize(("kind", "way", "output"), [*rows()])
def test_an_end(kind, way, output, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    program, method = KINDS[kind]
    logs = OUTPUTS[output]
    if output != "prefixed":
        logs = logs.__replace__(dir=tmp_path / "logs")
    stop = Stop(grace=0.2 if way == "ignore" else 20)
    options = {"nproc": 2, "start_method": method, "logs": logs, "stop": stop}
    group = procession.start(program, args=(way, str(tmp_path)), **options)
    files = [reader_of(tmp_path / f"{rank}.pids") for rank in range(2)]
    pids = [until(file, "the ranks", START_PATIENCE) for file in files]
    assert {rank: each[1] for rank, each in enumerate(pids)} == group.pids()

    value = kind.endswith("function")  # what others leave without a word may be a good end
    good = way in GOOD or (way == "os._exit(0)" and not value)
    if way in REQUESTS:
        getattr(group, "stop" if way == "ignore" else way)()
    for rank in range(2) if good else [1]:
        (tmp_path / f"go.{rank}").touch()
    result, failed = None, None
    try:
        result = group.wait(START_PATIENCE)
    except GroupFailed as e:
        failed = e

    gone([*itertools.chain(*pids)])
    if way in REQUESTS:
        assert result.state is Phase.STOPPED
        assert {each.exit.signal for each in result.ranks} == {REQUESTS[way]}
    elif good:
        assert result.state is Phase.SUCCEEDED
        assert result.values == ([0, 1] if value and way == "pass" else [None, None])
        assert {each.exit.code for each in result.ranks} == {0}
    else:
        assert_failed(failed, kind, way)
    ranks = result.ranks if failed is None else (*failed.ended, *failed.failures)
    assert_written(ranks, output, capfd.readouterr())


def assert_failed(failed, kind, way):
    told = FAILURES.get(way, (Outcome.NO_VALUE, 0, 1, "os._exit"))
    outcome, returncode, code, words = told
    if kind == "command":  # which tells nothing but how it ends
        outcome = Outcome.EXITED if returncode >= 0 else Outcome.SIGNALLED
        words = "SIGINT" if outcome is Outcome.SIGNALLED and returncode == -2 else words
    assert [each.rank for each in failed.failures] == [1]
    cause, text = failed.cause, str(failed)
    assert (cause.outcome, cause.exit.returncode, failed.exit_code) == (outcome, returncode, code)
    assert words in text
    assert "rank 1 of 2" in text.splitlines()[0]
    if outcome is Outcome.RAISED:
        assert cause.traceback.splitlines()[-1] == "ValueError: no data"
        assert "in end" in text
        assert "procession/worker" not in text
    if outcome is Outcome.RAISED and kind.endswith("function"):
        assert type(failed.__cause__) is ValueError
    (other,) = failed.ended
    assert (other.rank, other.exit.signal) == (0, signal.SIGTERM)


def assert_written(ranks, output, console):
    for stream, shown in (("out", console.out), ("err", console.err)):
        lines = [line for line in shown.splitlines() if f"{stream} of" in line]
        wanted = [] if output == "in files" else [f"{r}|{stream} of {r}" for r in range(2)]
        assert sorted(lines) == wanted
        for rank, each in enumerate(ranks) if output != "prefixed" else ():
            log = Path(each.stdout_log if stream == "out" else each.stderr_log)
            assert log.read_text().splitlines()[0] == f"{stream} of {rank}"
