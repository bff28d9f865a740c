"""The quick end of a forked rank, without taking apart what it shares with the other ranks.

Theory of operation. An interpreter that ends takes every module apart, and the C library then runs
the exit handlers of native code. In a fork of a process with large modules, this touches, and so
copies, most pages that it shares with the other ranks: with torch 0.3 s for each rank, without any
use. So what a program can see of its end is done here, in the order in which the interpreter does
it: threads are joined, exit handlers run, what the script holds is destroyed, files and the
standard streams are flushed. The rest is memory, which the kernel frees.

The interpreter ends the rank where there is more to do: an object does something when it is
destroyed (`survivors`), a native library was loaded since the fork that may have exit handlers,
a thread still runs, a stream cannot be flushed; and in development mode.
"""

from __future__ import annotations

import gc
import os
import sys

from procession.worker.survivors import finalizers_left, flush_files

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

# Libraries of the system whose exit handlers, if any, do not matter. Those of the name service
# (libnss_...) are loaded by the C library itself, by whatever /etc/nsswitch.conf names.
_HARMLESS = ("libbz2.", "libcrypto.", "libexpat.", "libffi.", "libgcc_s.", "liblzma.", "libm.",
             "libnss_", "libresolv.", "libsqlite3.", "libssl.", "libstdc++.", "libuuid.",
             "libz.")  # fmt: skip
TORCH = "torch.distributed"
_STANDARD = os.path.join(os.path.dirname(os.path.realpath(os.__file__)), "lib-dynload")


class Birth:
    """What the forkserver has when it forks a rank. Raises where libraries cannot be listed."""

    def __init__(self) -> None:
        from procession.system.libraries import loaded

        self._loaded = loaded
        self._libraries = loaded()
        self.modules = len(sys.modules)
        self.main = sys.modules.get("__main__")
        self.packages = frozenset(n.partition(".")[0] for n in sys.modules) - {"__main__"}

    def is_followed_by_strange_libraries(self) -> bool:
        """Whether one was loaded since that is neither Python's, of the packages, nor harmless."""
        for path in self._loaded() - self._libraries:
            where, name = os.path.split(os.path.realpath(path))
            if where == _STANDARD or name.startswith(_HARMLESS):
                continue
            _, found, inside = path.rpartition("-packages/")
            if not found or inside.partition("/")[0].removesuffix(".libs") not in self.packages:
                return True
        return False


_birth: Birth | None = None


def remember() -> None:
    """Note what ranks inherit: in the forkserver, before each fork."""
    global _birth
    if _birth is None or _birth.modules != len(sys.modules):
        if TORCH in sys.modules:
            __import__("procession.worker.linger")  # or each of them would
        try:
            _birth = Birth()
        except (ImportError, AttributeError, OSError, MemoryError):
            _birth = None
        gc.freeze()  # what is looked through at the end of a rank would be copied for it


def leave(code: int, born: object) -> None:
    """End this process with an exit code; returns if the interpreter has to end it.

    Then threads have been joined and exit handlers have run already. born: see `finalizers_left`.
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
        flush_files()  # the collector may close a file before its buffer is flushed
        if sys.modules.get("__main__") is not birth.main:
            sys.modules.pop("__main__", None)  # what the script holds goes with it
        gc.collect()
        if finalizers_left(birth.packages, born):
            return
        flush_files()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:  # pyright: ignore[reportUnnecessaryComparison]
                stream.flush()
        ctypes: Any = sys.modules["ctypes"]
        ctypes.CDLL(None).fflush(None)
    except Exception:
        return  # there is no memory left, or a stream fails: the interpreter reports it
    os._exit(code)


def wait_for_peers() -> None:
    """Have a rank with torch's process group stay for a moment; see `linger`."""
    if TORCH in sys.modules:
        try:
            from procession.worker import linger
        except (ImportError, OSError):
            return  # no descriptor is left to read it
        linger.for_peers()
