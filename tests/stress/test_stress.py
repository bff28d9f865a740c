"""Many groups and many dead launchers; the counts come from the environment.

PROCESSION_STRESS_GROUPS (100): groups in a row in which a random rank fails at a random moment.
PROCESSION_STRESS_KILLS (10): launchers that are killed at a random moment.
PROCESSION_STRESS_SEED: what the random choices start from; the report of a failure names it.
"""

import os
import random
import signal
import time

import pytest
from stresswork import fail_or_wait

import procession
from procession import GroupFailed, Logs, Outcome, Stop
from support import Launcher, alive, marked, until, write

GROUPS = int(os.environ.get("PROCESSION_STRESS_GROUPS", "100"))
KILLS = int(os.environ.get("PROCESSION_STRESS_KILLS", "10"))
SEED = int(os.environ.get("PROCESSION_STRESS_SEED", str(random.SystemRandom().randrange(10**9))))

pytestmark = [pytest.mark.long, pytest.mark.timeout(30 + GROUPS + 10 * KILLS)]

EXPECTED = {
    "exception": (Outcome.RAISED, 1),
    "exit": (Outcome.EXITED, 7),
    "kill": (Outcome.SIGNALLED, -signal.SIGKILL),
    "segv": (Outcome.SIGNALLED, -signal.SIGSEGV),
}


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork", "command"])
def test_cause_is_right_in_every_group(method):
    chance = random.Random(SEED)
    count = GROUPS if method == "forkserver" else max(1, GROUPS // 10)
    began = time.monotonic()
    for n in range(count):
        loser = chance.randrange(4)
        way = chance.choice(list(EXPECTED))
        after = chance.uniform(0, 0.03)
        where = f"group {n}: rank {loser}, {way} after {after:.4f} s, seed {SEED}"
        options = {"nproc": 4, "stop": Stop(grace=20), "logs": Logs(ranks=[])}
        try:
            if method == "command":
                procession.run(command(loser, way, after), **options)
            else:
                args = (loser, way, after)
                procession.run(fail_or_wait, args=args, start_method=method, **options)
            pytest.fail(f"no failure in {where}")
        except GroupFailed as e:
            failed = e
        outcome, code = EXPECTED[way]
        if (method, way) == ("command", "exception"):
            outcome = Outcome.EXITED
        assert failed.cause.rank == loser, where
        assert failed.cause.outcome is outcome, where
        assert failed.cause.exit.returncode == code, where
        assert [f.rank for f in failed.failures] == [loser], where
        assert [e.rank for e in failed.ended] == [r for r in range(4) if r != loser], where
        pids = [e.pid for e in (*failed.failures, *failed.ended) if e.pid is not None]
        assert not any(alive(p) for p in pids), where
    print(
        f"\n{method}: {count} groups, the cause right each time, {time.monotonic() - began:.1f} s"
    )


def command(loser, way, after):
    ends = {"exception": "exit 1", "exit": "exit 7", "kill": "kill -9 $$", "segv": "kill -11 $$"}
    return ["sh", "-c", f"[ $RANK = {loser} ] || exec sleep 100; sleep {after:.4f}; {ends[way]}"]


FAMILY = """
    import random, sys, procession
    sys.path.append(sys.argv[2])
    import stresswork

    method = sys.argv[1]
    print("going", flush=True)
    while True:
        if method == "command":
            shell = "trap '' TERM; sleep 100 & (setsid sh -c 'sleep 100 & sleep 100' &); sleep 100"
            group = procession.start(["sh", "-c", shell], nproc=4)
        else:
            group = procession.start(stresswork.family, nproc=4, start_method=method)
        try:
            group.wait(random.uniform(0, 0.2))
        except TimeoutError:
            group.kill()
"""


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork", "command"])
def test_nothing_lives_one_second_after_the_launcher(method, tmp_path):
    """In turn starting, running and ending groups, the launcher is killed at some moment."""
    chance = random.Random(SEED)
    script = write(tmp_path / "main.py", FAMILY)
    count = KILLS if method == "forkserver" else max(1, KILLS // 5)
    worst, seen = 0.0, 0
    for n in range(count):
        mark = f"PROCESSION_STRESS_MARK={SEED}.{method}.{n}"
        name, _, value = mark.partition("=")
        env = {**os.environ, name: value, "TMPDIR": str(tmp_path)}
        with Launcher(script, method, os.path.dirname(__file__), env=env) as launcher:
            launcher.said("going")
            time.sleep(chance.uniform(0, 0.4))
            if not n:  # once, something is there that could be left
                until(lambda mark=mark: len(marked(mark)) > 1, "processes of the launcher")
            seen = max(seen, len(marked(mark)))
            launcher.signal(signal.SIGKILL)
            killed = time.monotonic()
            launcher.process.wait()
            left = marked(mark)
            while left and time.monotonic() < killed + 1.0:
                left = marked(mark)
            worst = max(worst, time.monotonic() - killed)
            assert not left, f"launcher {n}, seed {SEED}: {left}"
    assert seen > 1
    print(f"\n{method}: {count} launchers killed, up to {seen} processes, gone after {worst:.3f} s")
