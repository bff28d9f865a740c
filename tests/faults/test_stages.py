"""A rank that fails at every stage of its life, in every way: told as what it is, no hang."""

import signal

import pytest
from faultwork import Argument, Program

import procession
from chaos.processes import state
from procession import GroupFailed, Logs, Outcome, Phase, Stop
from support import METHODS, alive, failure_of, reader_of, until

STAGES = (
    "unpickle function",
    "unpickle arguments",
    "function",
    "value",
    "exit",
    "thread",
    "child",
)
WAYS = {
    "kill": (Outcome.SIGNALLED, -9),
    "segv": (Outcome.SIGNALLED, -11),
    "exit": (Outcome.EXITED, 1),
    "exception": (Outcome.RAISED, 1),
}
# Python prints what exit handlers and threads raise, and goes on; a child speaks for itself alone.
HARMLESS = {("exit", "exception"), ("thread", "exception"), *(("child", w) for w in WAYS)}
OBEDIENT = Stop(grace=20)
QUIET = Logs(ranks=[])  # a crash prints its Python traceback

WHERE = [
    pytest.param(stage, *param.values, marks=param.marks)
    for stage in STAGES
    for param in (pytest.param(METHODS[0]), *METHODS[1:])
    # a fork of the launcher unpickles nothing, and runs no exit handlers
    if param is not METHODS[2] or stage in ("function", "value", "thread", "child")
]


@pytest.mark.parametrize(("stage", "method"), WHERE)
def test_fault(stage, method):
    for way in WAYS:
        assert_told(stage, method, way)


def assert_told(stage, method, way):
    fatal = (stage, way) not in HARMLESS
    program, args = Program(stage, way, fatal), (Argument(stage, way),)
    options = {"args": args, "nproc": 2, "start_method": method, "stop": OBEDIENT, "logs": QUIET}
    if not fatal:
        assert procession.run(program, **options) == ["good", "good"]
        return
    failed = failure_of(program, **options)
    outcome, code = WAYS[way]
    if (stage, way) == ("value", "exception"):
        outcome = Outcome.UNPICKLABLE
    assert failed.cause.rank == 1
    assert failed.cause.outcome is outcome
    assert failed.cause.exit.returncode == code
    assert [e.rank for e in failed.ended] == [0]
    assert failed.ended[0].exit.signal == signal.SIGTERM
    if way == "exception" and stage != "value":
        assert isinstance(failed.__cause__, ArithmeticError)
    if stage in ("exit", "thread"):
        assert "its program had come to a good end; it failed afterwards" in str(failed)
    assert failed.exit_code == (128 - code if code < 0 else code)


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize(("stage", "method"), WHERE)
def test_stopped_at_a_stage_and_ended(stage, method, end, tmp_path):
    file = tmp_path / "stopped"
    stop = Stop(grace=20, linger=0.05)
    group = procession.start(
        Program(stage, "stop", True),
        args=(Argument(stage, "stop"),),
        nproc=2,
        start_method=method,
        env={"STOPPED": str(file)},
        stop=stop,
    )
    (pid,) = until(reader_of(file), "the stage")
    until(lambda: state(pid) == "T", "its stop")
    assert group.state is Phase.RUNNING
    getattr(group, end)()
    assert not alive(pid)
    assert group.state is Phase.STOPPED
    (first, second) = group.wait(10).ranks
    assert first.exit.signal == (signal.SIGTERM if end == "stop" else signal.SIGKILL)
    if second.exit.signal is None:  # it had done its work before it was told to stop
        assert second.exit.code == 0


@pytest.mark.parametrize("count", [1, 3])
def test_a_fault_while_others_still_start(count):
    """The first rank is gone before the last one exists."""
    program = ["sh", "-c", f"[ $RANK -lt {count} ] && exit 3; exec sleep 100"]
    with pytest.raises(GroupFailed) as caught:
        procession.run(program, nproc=40, stop=OBEDIENT)
    assert caught.value.cause.exit.code == 3
    assert caught.value.cause.rank < count
    ends = [*caught.value.failures, *caught.value.ended, *caught.value.finished]
    assert sorted(e.rank for e in ends) == list(range(40))


@pytest.mark.parametrize("grace", [0, 0.01, 5])
def test_failure_while_the_group_is_stopped(grace):
    """A rank that fails in answer to a stop is no failure, however the race ends."""
    program = ["sh", "-c", "trap 'exit 9' TERM; while :; do sleep 0.01; done"]
    group = procession.start(program, nproc=3, stop=Stop(grace=grace))
    group.stop()
    assert group.wait(20).state is Phase.STOPPED
