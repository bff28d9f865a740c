"""Ranks that do what no rank should; a module that ranks import."""

from __future__ import annotations

import contextlib
import os
import signal
import time

KINDS = (
    *("ignores SIGTERM", "is stopped", "blocks all signals", "forks and forks", "closes all"),
    *("writes into all", "overwrites all", "leaves its session", "hides its environment"),
    *("truncates all", "a thread that never ends", "stops its children"),
)
INTO_ALL = ("writes into all", "truncates all", "overwrites all")


def be(kinds: list[str]) -> None:
    """Be a rank of a kind. Rank 0 fails when all others are at it."""
    rank, world = int(os.environ["RANK"]), len(kinds)
    work = os.environ["CHAOS_WORK"]
    if rank:
        with open(f"{work}/there.{rank}", "w"):
            pass
        _misbehave(kinds[rank])
        while True:
            time.sleep(100)
    while sum(os.path.exists(f"{work}/there.{each}") for each in range(1, world)) < world - 1:
        time.sleep(0.002)
    time.sleep(0.03)
    with open(f"{work}/struck", "w", encoding="ascii") as f:
        f.write(str(time.monotonic()))
    raise ArithmeticError("on purpose")


def _misbehave(kind: str) -> None:
    pid = os.getpid()
    if kind == "ignores SIGTERM":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif kind == "is stopped":
        os.kill(pid, signal.SIGSTOP)
    elif kind == "blocks all signals":
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    elif kind == "forks and forks":
        _fork_on()
    elif kind == "closes all":
        os.closerange(0, 4096)
    elif kind in INTO_ALL:
        _into_all(kind)
    elif kind == "leaves its session":
        if not os.fork():
            os.setsid()
            if os.fork():
                os._exit(0)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(100)
    elif kind == "hides its environment":
        if not os.fork():
            os.setsid()
            os.execve("/bin/sleep", ["sleep", "100"], {})
    elif kind == "a thread that never ends":
        import threading

        threading.Thread(target=time.sleep, args=(100,)).start()
    elif kind == "stops its children":
        for _ in range(5):
            child = os.fork()
            if not child:
                time.sleep(100)
            os.kill(child, signal.SIGSTOP)


def _fork_on() -> None:
    """Fork a chain of processes, each of which lives for 2 ms, in sessions of their own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork():
        return
    end = time.monotonic() + 20  # for the case that nobody ends them
    while time.monotonic() < end:
        os.setsid()
        time.sleep(0.002)
        if os.fork():
            os._exit(0)
    os._exit(0)


def _into_all(kind: str) -> None:
    nothing = os.open("/dev/null", os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        with contextlib.suppress(OSError):
            os.set_blocking(fd, False)
            if kind == "truncates all":
                if not os.readlink(f"/proc/self/fd/{fd}").startswith("/dev"):
                    os.ftruncate(fd, 0)
            elif kind == "overwrites all":
                os.dup2(nothing, fd)
            elif fd > 2:
                for _ in range(20):
                    os.write(fd, os.urandom(3000))
