"""The quick end of a forked rank: what the rank added is finalised, what it inherited is not.

Theory of operation. An interpreter that ends takes every module apart. In a fork of a process with
large modules, this touches, and so copies, most pages that it shares with the other ranks: with
torch 0.3 s for each rank, without any use. So what a program can see of its end is done here, in
the order in which the interpreter does it: threads are joined, exit handlers run, the modules that
the program itself imported are taken apart, so that destructors run and files are flushed, and the
standard streams are flushed. The rest is memory, which the kernel frees.

Native code can have exit handlers of its own, which only the C library's `exit` runs. So the quick
end is taken only if no unfamiliar library was loaded since the fork, and nothing else needs the
interpreter: other threads that still run, development mode, a stream that cannot be flushed, an
object that is still referenced and does something when it is destroyed (`survivors`).

Rejected: `os._exit` after the exit handlers, as `multiprocessing` does in its forks. A file that a
script left open would lose its last lines.
"""

from __future__ import annotations

import gc
import os
import sys
from types import ModuleType

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
    """What the forkserver has when it forks a rank: modules, and native libraries."""

    def __init__(self) -> None:
        from procession.system.libraries import loads

        self._count_loads = loads
        self._loads = loads()
        self.modules = dict(sys.modules)
        self.packages = frozenset(name.partition(".")[0] for name in self.modules) - {"__main__"}
        self.libraries = _libraries()
        ctypes: Any = sys.modules.get("ctypes")
        self.flush_c = None if ctypes is None else ctypes.CDLL(None).fflush

    def is_followed_by_strange_libraries(self) -> bool:
        """Whether a library was loaded since whose exit handlers are not known to be harmless."""
        if self._loads >= 0 and self._count_loads() == self._loads:
            return False
        now = _libraries()
        if now is None or self.libraries is None:
            return True
        return _strange(now - self.libraries, self.packages)


_birth: Birth | None = None
_born: list[None] = []  # made by `begin`: while the collector knows it, nothing was frozen since


def remember() -> None:
    """Note what ranks inherit: in the forkserver, before each fork."""
    global _birth
    if _birth is None or len(_birth.modules) != len(sys.modules):
        if TORCH in sys.modules:
            __import__("procession.worker.linger")  # or each of them would
        _birth = Birth()
        gc.freeze()  # what is looked through at the end of a rank would be copied for it


def begin() -> None:
    """Note in a rank, before its program begins, what shows whether the program calls `gc.freeze`.

    The collector then hides the program's objects. To count those that are hidden would take as
    long as to touch each of them: 7 ms with torch.
    """
    global _born
    _born = []


def leave(code: int) -> None:
    """End this process with an exit code; returns if the interpreter has to end it.

    Then threads have been joined and exit handlers have run already.
    """
    import atexit

    birth = _birth
    if birth is None or sys.flags.dev_mode:
        return
    threading: Any = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    if len(frames) > 1 or birth.is_followed_by_strange_libraries():
        return
    flush_files()  # the collector may close a file before its buffer is flushed
    if code == 0:
        wait_for_peers()  # before anything is destroyed that holds a connection
    _take_apart(*_own_modules(birth))
    flush_files()
    if finalizers_left(birth.packages, _born):
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:  # pyright: ignore[reportUnnecessaryComparison]
                stream.flush()
    except Exception:
        return  # the interpreter reports it, and sets its exit code
    ctypes: Any = sys.modules.get("ctypes")
    if birth.flush_c is not None:
        birth.flush_c(None)
    elif ctypes is not None:  # only ctypes could have written to a stream of the C library
        ctypes.CDLL(None).fflush(None)
    os._exit(code)


def wait_for_peers() -> None:
    """Have a rank with torch's process group stay for a moment; see `linger`."""
    if TORCH in sys.modules:
        try:
            from procession.worker import linger
        except (ImportError, OSError):
            return  # no descriptor is left to read it
        linger.for_peers()


def _own_modules(birth: Birth) -> tuple[list[Any], list[str]]:
    """Give the modules that the program imported, without those of packages that were there.

    And the names that they have in `sys.modules`. Not everything there is a module: programs put
    other objects there.
    """
    main = sys.modules.get("__main__")
    own: list[Any] = []
    names: list[str] = []
    if isinstance(main, ModuleType) and main is not birth.modules["__main__"]:
        own.append(main)
        names.append("__main__")
    # New ones come last. To look at all of them would copy the pages that hold them.
    for name, module in reversed(sys.modules.items()):
        if birth.modules.get(name) is module:
            break
        if name.partition(".")[0] not in birth.packages:
            own.append(module)
            names.append(name)
    return own[::-1], names


def _take_apart(modules: list[Any], names: list[str]) -> None:
    """Drop modules as the interpreter does: first those without references, the rest is emptied.

    The order is that of `finalize_modules` in CPython.
    """
    import weakref

    left = [weakref.ref(module) for module in modules if isinstance(module, ModuleType)]
    modules.clear()
    for name in names:
        sys.modules.pop(name, None)
    gc.collect()
    gc.callbacks.clear()  # their modules are emptied now; the interpreter calls none then, either
    for reference in reversed(left):
        module = reference()
        if module is not None:
            held = module.__dict__
            private = [n for n in held if n.startswith("_") and not n.startswith("__")]
            for name in (*private, *(n for n in list(held) if n != "__builtins__")):
                held[name] = None
    gc.collect()


def _libraries() -> frozenset[bytes] | None:
    """Give the files from which this process has mapped code, None if they cannot be listed."""
    try:
        with open("/proc/self/maps", "rb") as f:
            lines = [line.split(None, 5) for line in f]
    except OSError:  # no descriptor is left, or no /proc
        return None
    mapped = (parts for parts in lines if len(parts) == 6 and b"x" in parts[1])
    return frozenset(parts[5].rstrip(b"\n") for parts in mapped if parts[5].startswith(b"/"))


def _strange(libraries: frozenset[bytes], packages: frozenset[str]) -> bool:
    """Whether there is a library that is neither Python's, nor of the packages, nor harmless."""
    for library in libraries:
        path = os.fsdecode(library)
        if os.path.dirname(path) == _STANDARD or os.path.basename(path).startswith(_HARMLESS):
            continue
        _, found, inside = path.rpartition("-packages/")
        if not found or inside.partition("/")[0].removesuffix(".libs") not in packages:
            return True
    return False
