"""What ranks do in the tests of stacks."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import procession
from procession.worker.stackfile import GENTLE, SIGNAL

LONG = 1000
THREADS = 5  # besides the main one, where there are some


def nothing():
    """Come to a good end."""


def sleep():
    time.sleep(LONG)


def beat():
    while True:
        procession.beat(1, note="x" * 100)


def compare():
    while True:
        sorted(range(1000), key=lambda n: -n)


def compare_deaf():
    signal.signal(GENTLE, signal.SIG_DFL)
    procession.beat(1)
    compare()


def wait():
    threading.Event().wait()


def hold_the_lock():
    """Never let go of the interpreter's lock: one call of C code."""
    re.match(r"(a*)*b", "a" * 60)


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def block():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    sleep()


def handle():
    for number in (SIGNAL, GENTLE):
        signal.signal(number, lambda *_: os.environ.update(HANDLED="1"))
    sleep()


def ignore():
    signal.signal(SIGNAL, signal.SIG_IGN)
    sleep()


def become():
    os.execv(sys.executable, [sys.executable, "-c", f"import time; time.sleep({LONG})"])


def pause():
    signal.pause()
    os._exit(9)  # it must not have been woken


def write_garbage():
    for fd in os.listdir("/proc/self/fd"):
        if int(fd) >= 60:
            os.write(int(fd), b'\0 \xff garbage\n  File "x.py", line 1 in nobody\n' * 100)
    sleep()


def close_all():
    os.closerange(3, 1000)
    sleep()


def exhaust():
    kept = []
    try:
        while True:
            kept.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        sleep()


def fork():
    if not os.fork():
        sleep()
    os.wait()


def threads():
    for _ in range(THREADS):
        threading.Thread(target=sleep, daemon=True).start()
    wait()


def deep(levels=300):
    if levels:
        deep(levels - 1)
    sleep()


def child():
    subprocess.run(["sleep", str(LONG)], check=False)


WORK = (sleep, beat, wait, hold_the_lock, stop, block, handle, ignore, become, pause, write_garbage,
        close_all, exhaust, fork, threads, deep, child, compare, compare_deaf)  # fmt: skip
NUMBERS = {work.__name__: number for number, work in enumerate(WORK)}


def do(names, place=""):
    """Do what the name of this rank says; "fail" fails when all others have begun.

    "fail_when_running": and when there is a file that says that the launcher knows it.
    """
    rank = int(os.environ["RANK"])
    name = names[rank]
    attempt = f"{place}/attempt_{os.environ['TORCHELASTIC_RESTART_COUNT']}"
    files = f"{attempt}_rank_"
    if name in ("fail", "fail_when_running"):
        while name == "fail_when_running" and not os.path.exists(f"{attempt}_running"):
            time.sleep(0.005)
        while sum(os.path.exists(f"{files}{r}") for r in range(len(names))) < len(names) - 1:
            time.sleep(0.005)
        while any(_runs(f"{files}{r}", n) for r, n in enumerate(names) if r != rank):
            time.sleep(0.005)
        raise ValueError("meant to fail")
    if place:
        with open(f"{files}{rank}.new", "w") as f:
            f.write(str(os.getpid()))
        os.rename(f"{files}{rank}.new", f"{files}{rank}")
    procession.beat(1)
    WORK[NUMBERS[name]]()


def _runs(path, name):
    """Whether a rank has not come to rest yet; one that holds the lock never does."""
    with open(path) as f:
        pid = f.read()
    try:
        with open(f"/proc/{pid}/stat") as f:
            before = f.read().rpartition(")")[2].split()
    except OSError:
        return False
    if name == "threads" and int(before[17]) <= THREADS:
        return True
    return before[0] == "R" and int(before[11]) < 20  # a fifth of a second of work is no start
