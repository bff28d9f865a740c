"""Ranks that stop to beat, and groups that fall silent."""

import os
import signal
import subprocess
import sys
import time

import pytest
from hangwork import beat_together, beat_until, once, one_beats, talk

import procession
from seams.values import HUNG_CODE
from support import QUICK, failure_of, until, write

PREFIX = procession.Logs(prefix="[{rank}] ")
OTHERS = [pytest.param(each, marks=pytest.mark.long) for each in ("thread", "destructor")]


def test_a_rank_that_stops_to_beat_has_hung():
    hang = procession.Hang(timeout=1.0)
    e = failure_of(beat_until, args=(2,), nproc=4, hang=hang, stop=QUICK)
    assert (e.cause.rank, e.cause.outcome) == (2, procession.Outcome.HUNG)
    assert e.exit_code == HUNG_CODE == 124
    first = str(e).splitlines()[0]
    assert first.startswith(f"beat_until failed: rank 2 of 4 (pid {e.cause.pid}) hung: no beat for")
    assert "(the last one at step 19 of 100); it waits in wait (hangwork.py:" in first
    assert "when it hung, the ranks were:\n  rank 2 waits in wait (hangwork.py:" in str(e)
    assert len(e.ended) == 3


@pytest.mark.parametrize("stuck", [0, pytest.param(3, marks=pytest.mark.long)])
def test_the_blame_is_not_on_who_waits_for_a_rank_that_hangs(tmp_path, stuck):
    """All stopped to beat at the same step; which one did it first is chance."""
    hang = procession.Hang(timeout=0.5)
    e = failure_of(beat_together, args=(stuck, tmp_path), nproc=4, hang=hang, stop=QUICK)
    assert e.cause.rank == stuck


def test_who_never_beats_is_not_judged_beside_one_that_does():
    hang = procession.Hang(timeout=2.0)
    with procession.start(one_beats, nproc=2, hang=hang, stop=QUICK) as group:
        watch = group.driver.machine.hangs
        looks = []
        look = watch._check_beats
        watch._check_beats = lambda now: looks.append(now) or look(now)
        until(lambda: len(looks) >= 3)
        assert group.state is procession.Phase.RUNNING


AT_EXIT = """
import atexit, os, sys, threading, time
import procession

procession.beat(1)
class Slow:
    def __del__(self):
        time.sleep(1000)
if os.environ["RANK"] == "0":
    if sys.argv[1] == "handler":
        atexit.register(time.sleep, 1000)
    elif sys.argv[1] == "thread":
        threading.Thread(target=time.sleep, args=(1000,)).start()
    else:
        kept = Slow()
"""


@pytest.mark.parametrize("what", ["handler", *OTHERS])
@pytest.mark.parametrize("limit", ["timeout", "silence"])
def test_a_rank_whose_program_has_ended_and_whose_process_has_not_hangs(tmp_path, what, limit):
    script = write(tmp_path / "s.py", AT_EXIT)
    program = procession.Script(str(script), (what,))
    hang = procession.Hang(**{limit: 0.6})
    e = failure_of(program, nproc=2, hang=hang, stop=QUICK, logs=PREFIX, timeout=60)
    assert (e.cause.rank, e.cause.outcome) == (0, procession.Outcome.HUNG)


def test_a_hung_rank_that_cannot_be_asked(tmp_path):
    def work():
        procession.beat()
        os.kill(os.getpid(), signal.SIGSTOP)

    e = failure_of(work, nproc=1, hang=procession.Hang(timeout=0.3), stop=QUICK)
    assert "it had given 1); it is stopped (as by SIGSTOP, or by a debugger)" in str(e)
    assert e.cause.exit.signal == signal.SIGTERM
    assert e.exit_code == 124


# -- silence


ROUTES = {
    "pipes": PREFIX,
    "files": procession.Logs(redirect=procession.Std.ALL),
    "both": procession.Logs(tee=procession.Std.ALL),
}
SOME = ["pipes", *[pytest.param(each, marks=pytest.mark.long) for each in ("files", "both")]]


@pytest.mark.parametrize("route", SOME)
def test_a_group_that_falls_silent_has_hung(route, tmp_path):
    logs = ROUTES[route].__replace__(dir=tmp_path)
    hang = procession.Hang(silence=1.5)
    e = failure_of(talk, args=(True,), nproc=3, hang=hang, stop=QUICK, logs=logs)
    assert e.cause.outcome is procession.Outcome.HUNG
    assert e.cause.rank == 2  # not who wrote last, nor who never wrote, but who is not with others
    assert "hung: no rank has written anything for " in str(e)
    assert "it waits in wait (hangwork.py:" in str(e)
    assert "2 ranks [0-1] are in talk (hangwork.py:" in str(e)
    assert os.path.exists(e.end.stacks_file)


@pytest.mark.parametrize("route", SOME)
def test_one_rank_that_writes_is_enough(route, tmp_path):
    logs = ROUTES[route].__replace__(dir=tmp_path)
    hang = procession.Hang(silence=1.5)
    options = {"nproc": 3, "hang": hang, "stop": QUICK, "logs": logs}
    with procession.start(talk, args=(False,), **options) as group:
        watch = group.driver.machine.hangs
        looks = []
        look = watch._check_silence
        watch._check_silence = lambda now: looks.append(now) or look(now)
        until(lambda: len(looks) > 8, patience=30)  # the time of two limits
        assert group.state is procession.Phase.RUNNING


@pytest.mark.parametrize(
    ("nproc", "logs"),
    [
        (1, procession.Logs(prefix=None)),
        (2, procession.Logs(prefix=None)),
        (2, procession.Logs(ranks=[])),
    ],
)
def test_silence_that_nobody_could_hear_is_refused(nproc, logs):
    with pytest.raises(procession.SpecError, match="silence: output that goes straight"):
        procession.start(["true"], nproc=nproc, logs=logs, hang=procession.Hang(silence=1))


def test_a_single_rank_that_hangs_starts_again_alone(tmp_path):
    place = tmp_path / "once"
    restart = procession.Restart(max=1, scope="rank")
    options = {"nproc": 2, "restart": restart, "stop": QUICK}
    hang = procession.Hang(timeout=1.0)
    with procession.start(once, args=(str(place),), hang=hang, **options) as group:
        until(lambda: any(e.kind == "hung" for e in list(group.driver.journal.events)))
        pid = group.pids()[1]
        until(lambda: group.driver.machine.records[0].attempt == 1)
        assert group.pids()[1] == pid
        assert group.state is procession.Phase.RUNNING


SEEN_BY_NOBODY = """
import sys, procession
from hangwork import beat_until
group = procession.start(beat_until, args=(None,), nproc=2, hang=procession.Hang(timeout=5),
                         control=False)
while not all(each["step"] for each in group.look()["ranks"]):
    pass
print(*group.pids().values(), flush=True)
try:
    group.wait(0.1 + float(sys.argv[1]))
except TimeoutError:
    print("it goes on", flush=True)
    group.kill()
"""


@pytest.mark.long
def test_ranks_that_were_stopped_with_their_launcher_do_not_hang(tmp_path):
    """As when a machine is suspended, or a cgroup frozen."""
    path = write(tmp_path / "launcher.py", SEEN_BY_NOBODY)
    env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    with subprocess.Popen(
        [sys.executable, str(path), "8"], env=env, stdout=subprocess.PIPE, text=True
    ) as launcher:
        pids = [launcher.pid, *map(int, launcher.stdout.readline().split())]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid, seconds in zip(pids, (7, 0.3, 0.0), strict=True):  # no beat comes meanwhile
            later = time.monotonic() + seconds
            until(lambda later=later: time.monotonic() > later)
            os.kill(pid, signal.SIGCONT)
        assert launcher.stdout.readline() == "it goes on\n"
