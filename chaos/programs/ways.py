"""The ways in which a rank can end; a module that ranks import.

Each way is a function that does not return. `EXPECTED` has what a report must say of it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable

CODES = (1, 2, 3, 4, 77, 124, 126, 127, 128, 137, 254, 255)
SIGNALS = (
    *("KILL", "SEGV", "ABRT", "BUS", "FPE", "ILL", "TERM", "HUP", "QUIT", "USR1", "USR2"),
    *("ALRM", "TRAP", "SYS", "XCPU", "VTALRM", "PROF", "IO", "PWR", "STKFLT", "RTMIN"),
)


class Unfriendly(Exception):
    """Cannot be pickled, and cannot be shown."""

    def __init__(self, one: object, two: object) -> None:
        super().__init__(threading.Lock())

    def __str__(self) -> str:
        raise RuntimeError("this exception says nothing")

    __repr__ = __str__


class OfNoKind(BaseException):
    """No Exception."""


def _raise(make: Callable[[], BaseException]) -> Callable[[], None]:
    def way() -> None:
        raise make()

    return way


def _chain() -> None:
    try:
        raise KeyError("first")
    except KeyError as e:
        raise ValueError("then") from e


def _recursion() -> None:
    _recursion()


def _unicode() -> None:
    b"\xff".decode()


def _compile() -> None:
    compile("def", "<made>", "exec")


def _in_handler() -> None:
    def ring(*_: object) -> None:
        raise ArithmeticError("rung")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    time.sleep(100)


EXCEPTIONS: dict[str, Callable[[], None]] = {
    "ValueError": _raise(lambda: ValueError("no")),
    "KeyError": _raise(lambda: KeyError("no")),
    "OSError": _raise(lambda: OSError(5, "no", "file")),
    "AssertionError": _raise(AssertionError),
    "MemoryError": _raise(MemoryError),
    "StopIteration": _raise(StopIteration),
    "TimeoutError": _raise(TimeoutError),
    "cancelled": _raise(asyncio.CancelledError),
    "long message": _raise(lambda: ValueError("x" * 2_000_000)),
    "unfriendly": _raise(lambda: Unfriendly(1, 2)),
    "no Exception": _raise(lambda: OfNoKind("no")),
    "chain": _chain,
    "recursion": _recursion,
    "UnicodeDecodeError": _unicode,
    "SyntaxError": _compile,
    "in a handler": _in_handler,
}


def _exit(code: int) -> Callable[[], None]:
    return lambda: sys.exit(code)


def _hard_exit(code: int) -> Callable[[], None]:
    return lambda: os._exit(code)


def _kill(name: str) -> Callable[[], None]:
    def way() -> None:
        number = getattr(signal, f"SIG{name}")
        here = threading.current_thread() is threading.main_thread()
        if number != signal.SIGKILL and here:  # in another thread, all have their default
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        time.sleep(100)

    return way


def _really_segv() -> None:
    ctypes.string_at(0)


def _kill_session() -> None:
    os.killpg(0, signal.SIGKILL)
    time.sleep(100)


def _killed_by_child() -> None:
    if not os.fork():
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(0)
    time.sleep(100)


def _from_a_thread(strike: Callable[[], None]) -> Callable[[], None]:
    def way() -> None:
        threading.Thread(target=strike, daemon=True).start()
        time.sleep(100)

    return way


def _cpu_limit() -> None:
    # Imports may have taken a second of it, so that the kernel strikes at once, or after one.
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    while True:
        pass


def _become_another() -> None:
    os.execv("/bin/sh", ["sh", "-c", "exit 9"])


# These end the process wherever it is.
HARD: dict[str, Callable[[], None]] = {
    **{f"_exit {code}": _hard_exit(code) for code in CODES},
    **{f"SIG{name}": _kill(name) for name in SIGNALS},
    "abort": os.abort,
    "a real SIGSEGV": _really_segv,
    "kills its session": _kill_session,
    "killed by its child": _killed_by_child,
    "_exit in a thread": _from_a_thread(_hard_exit(5)),
    "SIGKILL in a thread": _from_a_thread(_kill("KILL")),
    "limit of CPU time": _cpu_limit,
    "becomes another program": _become_another,
}
SOFT: dict[str, Callable[[], None]] = {
    **EXCEPTIONS,
    **{f"exit {code}": _exit(code) for code in CODES},
    "exit with a text": lambda: sys.exit("a text"),
}
WAYS = {**HARD, **SOFT}


def expected(way: str) -> tuple[str, int]:
    """Give the name of the outcome that a report must have, and the returncode."""
    if way in EXCEPTIONS:
        return "RAISED", 1
    if way.startswith(("exit ", "_exit ")):
        word = way.split()[1]
        return "EXITED", int(word) if word.isdecimal() else {"with": 1, "in": 5}[word]
    if way == "becomes another program":
        return "EXITED", 9
    name = {"abort": "ABRT", "a real SIGSEGV": "SEGV"}.get(way, "KILL")
    if way.startswith("SIG") and " " not in way:
        name = way[3:]
    return "SIGNALLED", -int(getattr(signal, f"SIG{name}"))


def strike(way: str) -> None:
    """End in this way, having noted when."""
    place = os.environ["CHAOS_WORK"]
    with open(f"{place}/struck", "w", encoding="ascii") as f:
        f.write(str(time.monotonic()))
    WAYS[way]()
