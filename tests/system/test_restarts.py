"""Groups and single ranks that start again, with real processes."""

import os
import sys
import textwrap
import time

import pytest

import procession
from procession import GroupFailed, Logs, Phase, Restart, Std, Stop
from support import failure_of, until

BEGIN = """
import os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
rank, life = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
(place / f"{rank}.{life}").write_text(str(os.getpid()))
"""


def program(tmp_path, source):
    path = tmp_path / "program.py"
    path.write_text(BEGIN + textwrap.dedent(source))
    return procession.Script(str(path), (str(tmp_path),))


def lives(tmp_path):
    return sorted(p.name for p in tmp_path.glob("[0-9]*.[0-9]*"))


def attempts(tmp_path):
    """List the attempts in which a rank came to its program; one that fails stops the others."""
    return sorted({name.partition(".")[2] for name in lives(tmp_path)})


def kinds(group, *wanted):
    return [e.kind for e in group if e.kind in wanted]


def test_the_waits_grow_and_are_told(tmp_path):
    restart = Restart(max=3, backoff=0.05, jitter=0)
    group = procession.start(program(tmp_path, "sys.exit(3)"), nproc=2, restart=restart)
    with pytest.raises(GroupFailed) as failed:
        group.wait(30)
    assert attempts(tmp_path) == ["0", "1", "2", "3"]
    backoffs = [e for e in group if e.kind == "backoff"]
    assert "exited with code 3" in backoffs[0].detail
    assert backoffs[1].detail.endswith("attempt 2 starts in 0.10 s")
    report = str(failed.value)
    assert "note: attempt 2 failed: " in report
    assert "note: not restarted: 3 of 3 restarts are used" in report


def test_a_stop_during_the_wait_ends_it(tmp_path):
    restart = Restart(max=3, backoff=60)
    group = procession.start(program(tmp_path, "sys.exit(3)"), nproc=2, restart=restart)
    until(lambda: group.state is Phase.BACKOFF)
    began = time.monotonic()
    group.stop()
    assert time.monotonic() - began < 20
    assert group.state is Phase.FAILED
    assert attempts(tmp_path) == ["0"]
    with pytest.raises(GroupFailed):
        group.result()


def test_what_fails_twice_in_the_same_place_is_not_started_a_third_time(tmp_path):
    with pytest.raises(GroupFailed) as failed:
        procession.run(
            program(tmp_path, "raise ValueError(f'batch {os.getpid()}')"),
            nproc=2,
            restart=Restart(max=9, min_uptime=30),
        )
    assert attempts(tmp_path) == ["0", "1"]
    assert "it failed twice at the same location (ValueError in program.py:6)" in str(failed.value)


def test_on_failure_hears_of_each_and_may_forbid_more(tmp_path):
    heard = []

    def on_failure(end):
        left = [os.path.exists(f"/proc/{f.pid}") for f in (*end.failures, *end.ended)]
        failed = end.failures[0]  # on a slow machine, it is ended before it has exited
        code = failed.exit.code if failed.announced is None else failed.announced
        heard.append((end.attempt, code, any(left)))
        return end.attempt < 1

    with pytest.raises(GroupFailed) as failed:
        procession.run(
            program(tmp_path, "sys.exit(3)"), nproc=2, restart=Restart(max=9), on_failure=on_failure
        )
    assert heard == [(0, 3, False), (1, 3, False)]
    assert "not restarted: on_failure said so" in str(failed.value)


class Unsayable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (Unsayable(), "Unsayable: <its text cannot be had: RuntimeError>"),
    ],
)
def test_on_failure_that_exits_or_has_no_text_is_told_too(fault, said):
    """The failure itself stays the one that is reported."""

    def on_failure(end):
        raise fault

    with pytest.raises(GroupFailed, match=f"on_failure raised {said}") as failed:
        procession.run(["false"], nproc=2, restart=Restart(max=9), on_failure=on_failure)
    assert failed.value.cause.exit.code == 1


# -- one for one


ONE = """
if rank == "1" and life < "2":
    {how}
while not all((place / f"{{r}}.{{n}}").exists() for r, n in ((0, 0), (1, 2), (2, 0))):
    time.sleep(0.002)
"""


@pytest.mark.parametrize(
    "how", ["sys.exit(3)", "os._exit(3)", "raise ValueError", "os.kill(os.getpid(), 9)"]
)
@pytest.mark.parametrize("kind", ["script", pytest.param("command", marks=pytest.mark.long)])
def test_only_the_rank_that_failed_starts_again(tmp_path, how, kind):
    script = program(tmp_path, ONE.format(how=how))
    if kind == "command":
        script = [sys.executable, script.path, *script.args]
    group = procession.start(script, nproc=3, restart=Restart(max=5, scope="rank"))
    group.wait(40)
    assert lives(tmp_path) == ["0.0", "1.0", "1.1", "1.2", "2.0"]
    assert kinds(group, "restarting", "stopping", "backoff") == ["restarting", "restarting"]


def test_ranks_that_keep_failing_do_not_put_off_the_end_of_one_that_hangs_at_its_exit(tmp_path):
    source = """
    import atexit
    if rank == "0" and life == "0":
        atexit.register(time.sleep, 600)
        raise ValueError("and hangs")
    if rank == "1" and not (place / "0.1").exists():
        time.sleep(0.1)
        sys.exit(3)
    """
    restart, stop = Restart(max=100, scope="rank"), Stop(linger=1)
    procession.run(program(tmp_path, source), nproc=2, restart=restart, stop=stop, timeout=60)
    assert sorted(life for life in lives(tmp_path) if life[0] == "0") == ["0.0", "0.1"]
    assert "1.1" in lives(tmp_path)


def test_a_rank_that_hangs_at_its_exit_is_not_reported_as_stopped(tmp_path):
    source = """
    import atexit
    if rank == "0":
        atexit.register(time.sleep, 600)
        atexit.register((place / "exits").touch)
    while rank == "1" and not (place / "exits").exists():
        time.sleep(0.002)
    sys.exit({"0": 0, "1": 3}[rank])
    """
    restart, stop = Restart(max=2, scope="rank"), Stop(grace=1)
    failed = failure_of(program(tmp_path, source), nproc=2, restart=restart, stop=stop)
    assert failed.cause.rank == 1
    assert "SIGSTOP" not in str(failed)
    assert "as it exited" in str(failed)


# -- what a restart must not leave, or lose


@pytest.mark.parametrize("more", [{}, {"duplicate_stdout": ["no such line"]}])
def test_restarts_of_a_rank_leave_no_descriptors(tmp_path, more):
    counts = []

    def count(event):
        if event.kind == "restarting":
            counts.append(len(os.listdir("/proc/self/fd")))

    command = ["sh", "-c", "echo line; [ $RANK = 0 ] && exec sleep 100; exit 3"]
    with pytest.raises(GroupFailed):
        procession.run(
            command,
            nproc=2,
            stop=Stop(grace=5),
            restart=Restart(max=40, scope="rank"),
            logs=Logs(tmp_path, tee=Std.ALL, **more),
            on_event=count,
        )
    assert len(counts) == 40
    # Some are on their way at any moment; what stays would show in all later counts.
    assert min(counts[30:]) <= max(counts[5:15]) + 3, counts
