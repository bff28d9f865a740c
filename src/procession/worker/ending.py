"""The quick end of a forked rank, without taking apart what it shares with the other ranks.

Theory of operation. An interpreter that ends takes every module apart, and the C library then runs
the exit handlers of native code. In a fork of a process with large modules, this touches, and so
copies, most pages that it shares with the other ranks: with torch 0.3 s for each rank, without any
use. So what a program can see of its end is done here, in the order in which the interpreter does
it: threads are joined, exit handlers run, the modules that came since the fork are destroyed with
all that they hold, files and the standard streams are flushed. The rest is memory, which the kernel
frees.

The interpreter ends the rank where there is more to do: a native library was loaded since the fork
that may have exit handlers, a thread still runs, a stream cannot be flushed; and in development
mode.

A rank that has returned with torch's process group open stays for a moment, for its peers: they may
still connect to it, since gloo's ranks are not all connected at the moment when one of them is. An
interpreter with torch takes 0.3 s to end, in which the peers get ready; a rank here ends in
milliseconds, and its peers failed with "Connection closed by peer" now and then. So it waits until
the launcher says that all have returned, or the group is being ended, and `LONGEST` at most: its
peers may be on other machines, of which this launcher does not know, or may never return. Ranks
that end together (`call_together`) wait without that limit.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from itertools import takewhile

from procession.system import plain as signal

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

# Libraries of the system whose exit handlers, if any, do not matter. Those of the name service
# (libnss_...) are loaded by the C library itself, by whatever /etc/nsswitch.conf names.
_HARMLESS = ("libbz2.", "libcrypto.", "libexpat.", "libffi.", "libgcc_s.", "liblzma.", "libm.",
             "libnss_", "libresolv.", "libsqlite3.", "libssl.", "libstdc++.", "libuuid.",
             "libz.")  # fmt: skip
_STANDARD = os.path.join(os.path.dirname(os.path.realpath(os.__file__)), "lib-dynload")
LAST = "procession"  # the last of the modules that were there before the fork
LONGEST = 0.25  # seconds for which a rank stays for its peers
LOOK, RARE = 0.002, 0.1  # seconds from one look to the next, at first and after long waiting


class Birth:
    """What the agent has when it forks a rank. Raises where libraries cannot be listed."""

    def __init__(self) -> None:
        from procession.system.libraries import loaded

        self._loaded = loaded
        self._libraries = loaded()
        self._packages = {name.partition(".")[0] for name in sys.modules} - {"__main__"}
        self._main = sys.modules.get("__main__")
        self.modules = len(sys.modules)

    def is_followed_by_strange_libraries(self) -> bool:
        """Whether one was loaded since that is neither Python's, of the packages, nor harmless."""
        for path in self._loaded() - self._libraries:
            where, name = os.path.split(os.path.realpath(path))
            if where == _STANDARD or name.startswith(_HARMLESS):
                continue
            _, found, inside = path.rpartition("-packages/")
            if not found or inside.partition("/")[0].removesuffix(".libs") not in self._packages:
                return True
        return False

    def forget_later_modules(self) -> None:
        """Destroy the modules that came since, with what they hold.

        They stand at the end. To look at all modules would copy the pages of their names. What
        something else still holds (a handler of a signal holds the names of its module) is emptied,
        as by an interpreter.
        """
        later = [*takewhile(lambda name: name != LAST, reversed(sys.modules))]
        if sys.modules.get("__main__") is not self._main:
            later.append("__main__")
        later.reverse()  # in the order of the interpreter
        for name in later:
            sys.modules.pop(name, None)
        gc.collect()
        gone = {*later}
        every: list[Any] = gc.get_objects()
        names: dict[str, Any]
        for names in filter(lambda each: type(each) is dict, every):
            if "__builtins__" in names and names.get("__name__") in gone:
                for name in [*names]:
                    if name != "__builtins__":
                        names[name] = None


_birth: Birth | None = None
_together = 0  # the process that ends together with the other ranks


def remember() -> None:
    """Note what ranks inherit: in the agent, before each fork."""
    global _birth
    if _birth is None or _birth.modules != len(sys.modules):
        if "torch.distributed" in sys.modules:
            __import__("procession.worker.board")  # or each of them would
        try:
            _birth = Birth()
        except (ImportError, AttributeError, OSError, MemoryError):
            _birth = None
        sys.modules[LAST] = sys.modules.pop(LAST)
        gc.freeze()  # what is looked through at the end of a rank would be copied for it


def leave(code: int) -> None:
    """End this process with an exit code; returns if the interpreter has to end it.

    Then threads have been joined and exit handlers have run already. code: see `exit_at_once`.
    """
    import atexit

    birth = _birth
    if birth is None or sys.flags.dev_mode:
        return
    threading: Any = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    try:
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
        if len(frames) > 1 or birth.is_followed_by_strange_libraries():
            return
        if code == 0:
            wait_for_peers()  # before anything is destroyed that holds a connection
        _flush()  # the collector may close a file before its buffer is flushed
        # What the program has put in their place may need its modules.
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        birth.forget_later_modules()
        _flush()
        ctypes: Any = sys.modules["ctypes"]
        ctypes.CDLL(None).fflush(None)
    except Exception:
        return  # there is no memory left, or a stream fails: the interpreter reports it
    exit_at_once(code)


def exit_at_once(code: int) -> NoReturn:
    """End this process. code: its exit code; minus SIGINT: it dies of that, as after Ctrl-C."""
    if code < 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


def _flush() -> None:
    """Flush the streams of the program, then the standard streams. Raises what these raise."""
    import _io

    kinds = (_io.TextIOWrapper, _io.BufferedWriter, _io.BufferedRandom)
    for each in gc.get_objects():
        # Their type first: to look at other objects may run their code.
        if issubclass(type(each), kinds) and each is not sys.stdout and each is not sys.stderr:
            try:
                if not each.closed:
                    each.flush()
            except Exception:
                pass  # the interpreter could not report it either
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:  # pyright: ignore[reportUnnecessaryComparison]
            stream.flush()


def call_together(function: Callable[..., Any], *args: Any) -> Any:
    """Call the function of a rank that ends together with the other ranks of its group."""
    from procession.worker import board

    global _together
    _together = os.getpid()
    board.stopping()  # finds the board, before the program may change its environment
    return function(*args)


def wait_for_all() -> None:
    """Wait until all ranks have returned, if this one ends together with them."""
    if _together == os.getpid():
        _stay(float("inf"))


def wait_for_peers() -> None:
    """Stay for the peers of this rank, if it has left a process group of torch open."""
    distributed: Any = sys.modules.get("torch.distributed")
    try:
        if not distributed or not distributed.is_initialized() or distributed.get_world_size() < 2:
            return
    except Exception:
        return  # a torch without it, or one whose state the program has changed
    _stay(LONGEST)


def _stay(seconds: float) -> None:
    """Wait until all ranks have returned, or the group is being ended."""
    try:
        from procession.worker import board
    except (ImportError, OSError):
        return  # no descriptor is left to read it
    waited, began = 0.0, time.monotonic()
    while not board.all_returned() and waited < seconds:
        time.sleep(min(max(LOOK, waited / 10), RARE))
        waited = time.monotonic() - began
