"""`--forward` and `--preempt`: signals to the command that do not end the group at once."""

import os
import re
import signal

import pytest
from commandline import Watched

from support import START_PATIENCE, until, write

POLITE = """
    import os, time
    import procession
    print("works", flush=True)
    while not procession.stopping():
        time.sleep(0.002)
    print("saved with", int(procession.stopping().seconds_left), "s left", flush=True)
    """
RUDE = """
    import time
    print("works", flush=True)
    time.sleep(600)
    """
CATCHING = """
    import os, signal, time
    import procession
    caught = []
    signal.signal(signal.SIGUSR1, lambda *_: caught.append(os.write(1, b"caught\\n")))
    print("works", flush=True)
    while not (procession.stopping() and caught):
        time.sleep(0.002)
    """
FORWARDED = """
    import os, signal, sys
    signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"one\\n"))
    signal.signal(signal.SIGUSR2, lambda *_: sys.exit(0))
    print("works", flush=True)
    while True:
        signal.pause()
    """


@pytest.mark.parametrize("who", ["SIGUSR1:60", "slurm", "kubernetes:60"])
def test_ranks_end_by_themselves_within_the_notice(tmp_path, who):
    number = signal.SIGTERM if who == "kubernetes:60" else signal.SIGUSR1
    with Watched("run", "-n", 2, "--preempt", who, write(tmp_path / "p.py", POLITE)) as it:
        it.shows(b"[0] works", b"[1] works")
        it.signal(number)
        assert it.end() == 128 + number
    saved = dict(re.findall(rb"\[(\d)\] saved with (\d+) s left", it.out))
    assert set(saved) == {b"0", b"1"}
    assert all(13 < int(left) <= 53 for left in saved.values())  # 40 s of notice, 13 s after it
    assert f"procession: {number.name}: 40 s for ranks to end" in it.err.decode()
    assert b"procession: p.py had done its work before" in it.err


def test_who_takes_no_notice_is_stopped_in_time(tmp_path):
    with Watched("run", "-n", 2, "--preempt", "SIGUSR1:2", write(tmp_path / "r.py", RUDE)) as it:
        it.shows(b"[0] works", b"[1] works")
        it.signal(signal.SIGUSR1)
        assert it.end() == 128 + signal.SIGUSR1
    assert b"procession: r.py was stopped by SIGUSR1" in it.err


def test_who_has_a_handler_for_the_signal_gets_it(tmp_path):
    script = write(tmp_path / "c.py", CATCHING)
    with Watched("run", "-n", 2, "--preempt", "slurm:60", script) as it:
        it.shows(b"[0] works", b"[1] works")
        it.signal(signal.SIGUSR1)
        assert it.end() == 128 + signal.SIGUSR1
    assert {b"[0] caught", b"[1] caught"} <= {*bytes(it.out).splitlines()}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_ctrl_c_ends_a_notice(tmp_path, number):
    with Watched("run", "-n", 2, "--preempt", "SIGUSR1:900", write(tmp_path / "r.py", RUDE)) as it:
        it.shows(b"[0] works", b"[1] works")
        it.signal(signal.SIGUSR1)
        it.shows(b"for ranks to end by themselves")
        it.signal(signal.SIGUSR1)  # no more than the first
        it.signal(number)
        assert it.end() == 128 + signal.SIGUSR1


def test_a_second_sigterm_on_kubernetes_ends_the_notice_and_a_third_one_kills(tmp_path):
    stubborn = """
        import os, signal, time
        signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"heard it\\n"))
        print("works", flush=True)
        while True:
            time.sleep(600)
        """
    script = write(tmp_path / "s.py", stubborn)
    with Watched("run", "-n", 2, "--preempt", "kubernetes:900", script) as it:
        it.shows(b"[0] works", b"[1] works")
        it.signal(signal.SIGTERM)
        it.shows(b"for ranks to end by themselves", b"[0] heard it", b"[1] heard it")
        heard = it.out.count(b"heard it")
        it.signal(signal.SIGTERM)
        until(lambda: it.out.count(b"heard it") == heard + 2, "the stop signal", START_PATIENCE)
        it.signal(signal.SIGTERM)
        assert it.end() == 128 + signal.SIGTERM


def test_forwarded_signals_reach_every_rank_and_end_nothing(tmp_path):
    script = write(tmp_path / "f.py", FORWARDED)
    with Watched("run", "-n", 2, "--forward", "SIGUSR1,SIGUSR2", script) as it:
        it.shows(b"[0] works", b"[1] works")
        it.signal(signal.SIGUSR1)
        it.shows(b"[0] one", b"[1] one")
        it.signal(signal.SIGUSR2)
        assert it.end() == 0
    assert it.err == b""


def test_third_interrupt_orphans_nobody(tmp_path):
    script = write(
        tmp_path / "deaf.py",
        """
        import os, signal, time
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        print("pid", os.getpid(), flush=True)
        time.sleep(600)
        """,
    )
    with Watched("run", "-n", 2, script) as it:
        it.shows(b"[0] pid", b"[1] pid")
        it.signal(signal.SIGINT)
        it.shows(b"waiting for ranks to end; once more kills them")
        it.signal(signal.SIGINT)
        it.signal(signal.SIGINT)
        assert it.end() == 130
    for line in bytes(it.out).splitlines():
        pid = int(line.split()[-1])
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
