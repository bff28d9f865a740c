"""The quick end of a rank that was forked: its own part is finalised, what it was born with is not.

Theory of operation. An interpreter that ends takes apart every module. In a fork of a process that
has large ones, this touches, and so copies, most pages that it shares with the others: of torch,
0.3 s for each rank, for nothing. So what a program can see of its end is done here, in the order in
which the interpreter does it: threads are waited for, exit handlers run, the modules that the
program itself has brought are taken apart, so that destructors run and files are flushed, and the
standard streams are flushed. What is left is memory, which the kernel takes back.

Native code can have exit handlers of its own, which only the C library's `exit` runs. So the quick
way is only taken where no unfamiliar library has been loaded since the fork, and nothing else calls
for the interpreter: other threads that still run, its development mode, a stream that does not take
what is left.

Rejected: `os._exit` behind the exit handlers, as `multiprocessing` does in its forks. A file that a
script has opened and left open would lose its last lines.
"""

from __future__ import annotations

import gc
import os
import sys
from types import ModuleType

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

# Libraries of the system without exit handlers that anybody would miss.
_HARMLESS = ("libbz2.", "libcrypto.", "libexpat.", "libffi.", "libgcc_s.", "liblzma.", "libm.",
             "libsqlite3.", "libssl.", "libstdc++.", "libuuid.", "libz.")  # fmt: skip
_STANDARD = os.path.join(os.path.dirname(os.path.realpath(os.__file__)), "lib-dynload")


class Birth:
    """What a process has before its ranks are forked: modules, and native libraries."""

    def __init__(self) -> None:
        self.modules = dict(sys.modules)
        self.packages = frozenset(name.partition(".")[0] for name in self.modules) - {"__main__"}
        self.libraries = _libraries()
        ctypes: Any = sys.modules.get("ctypes")
        self.flush_c = None if ctypes is None else ctypes.CDLL(None).fflush


_birth: Birth | None = None


def remember() -> None:
    """Take note of what ranks are born with: in the forkserver, before each fork."""
    global _birth
    if _birth is None or len(_birth.modules) != len(sys.modules):
        _birth = Birth()


def leave(code: int) -> None:
    """End this process with an exit code; returns where only the interpreter can end it well.

    Threads have been waited for and exit handlers have run then, which the interpreter would do.
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
    if len(frames) > 1 or _strange(_libraries() - birth.libraries, birth.packages):
        return
    _flush_files()  # before, too: the collector may close a file before what buffers for it
    _take_apart(_own_modules(birth))
    _flush_files()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:  # pyright: ignore[reportUnnecessaryComparison]
                stream.flush()
    except Exception:
        return  # the interpreter says so, and has an exit code for it
    ctypes: Any = sys.modules.get("ctypes")
    if birth.flush_c is not None:
        birth.flush_c(None)
    elif ctypes is not None:  # otherwise, who would have written to a stream of the C library?
        ctypes.CDLL(None).fflush(None)
    os._exit(code)


def _own_modules(birth: Birth) -> list[ModuleType]:
    """Give the modules that the program has brought, but for more of packages that were there."""
    main = sys.modules.get("__main__")
    own = [main] if isinstance(main, ModuleType) and main is not birth.modules["__main__"] else []
    # New ones stand at the end. To look at all would copy the pages that they lie in.
    for name, module in reversed(sys.modules.items()):
        if birth.modules.get(name) is module:
            break
        if isinstance(module, ModuleType) and name.partition(".")[0] not in birth.packages:  # pyright: ignore[reportUnnecessaryIsInstance]
            own.append(module)
    return own[::-1]


def _take_apart(modules: list[ModuleType]) -> None:
    """Let go of modules as the interpreter does: what nobody holds goes first, the rest is emptied.

    The order is that of `finalize_modules` in CPython.
    """
    import weakref

    left = [weakref.ref(module) for module in modules]
    mine = {id(module) for module in modules}
    modules.clear()
    for name in [name for name, module in sys.modules.items() if id(module) in mine]:
        del sys.modules[name]
    gc.collect()
    for reference in reversed(left):
        module = reference()
        if module is not None:
            names = module.__dict__
            private = [n for n in names if n.startswith("_") and not n.startswith("__")]
            for name in (*private, *(n for n in list(names) if n != "__builtins__")):
                names[name] = None
    gc.collect()


def _flush_files() -> None:
    """Flush the files that somebody still holds."""
    import io

    # Their type first: to look at other objects may run their code.
    kinds = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    for each in gc.get_objects():
        if type(each) in kinds and each not in (sys.stdout, sys.stderr):
            try:
                if not each.closed:
                    each.flush()
            except Exception:
                pass  # as the interpreter has it, which cannot tell anybody either


def _libraries() -> frozenset[bytes]:
    """Give the files of which this process has code in memory."""
    found: set[bytes] = set()
    with open("/proc/self/maps", "rb") as f:
        for line in f:
            parts = line.split(None, 5)
            if len(parts) == 6 and b"x" in parts[1] and parts[5].startswith(b"/"):
                found.add(parts[5].rstrip(b"\n"))
    return frozenset(found)


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
