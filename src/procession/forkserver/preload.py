"""Imports in the forkserver, before any rank is forked: what all ranks will import anyway.

Theory of operation. A module that is imported here is imported once for all ranks, and its pages
are shared. That is sound only if importing it has started nothing that a fork would break: threads
(but for those of libraries that stop and restart theirs around a fork), connections, devices. So
the process looks at itself afterwards, and if something is there, it says what, and every rank gets
a fresh interpreter as if nothing had been preloaded. What the imports printed, such as warnings,
is kept, and printed by each rank. A module that cannot be imported is left to the rank, which then
fails by itself, with its own traceback.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel", "/dev/neuron", "/dev/davinci")


class Preloaded:
    """What was imported before the ranks.

    fault: why no rank may be forked from this process, "" if all is well. failed: modules that
    could not be imported. printed: what the imports wrote to stdout and to stderr. variables: that
    the imports set.
    """

    def __init__(self) -> None:
        self.fault = ""
        self.failed: list[str] = []
        self.printed: tuple[bytes, bytes] = (b"", b"")
        self.variables: dict[str, str] = {}
        self._sockets = _open("socket:")

    def add(self, modules: list[str], env: dict[str, str], path: list[str] | None) -> None:
        """Import modules in order, unless they are there, with the ranks' common environment.

        path: where to look for them, `sys.path` if None.
        """
        self.failed = []
        wanted = [name for name in modules if name not in sys.modules]
        if not wanted or self.fault:
            return
        printed, variables = _imported(wanted, env, path, self.failed)
        self.printed = self.printed[0] + printed[0], self.printed[1] + printed[1]
        self.variables.update(variables)
        self.fault = _fault(self._sockets)
        gc.collect()
        gc.freeze()  # the collector of a rank must not touch, and so copy, pages that all share


def _imported(
    modules: list[str], env: dict[str, str], path: list[str] | None, failed: list[str]
) -> tuple[tuple[bytes, bytes], dict[str, str]]:
    """Import modules; gives what that printed, and the variables that it set."""
    before, own_path = dict(os.environ), list(sys.path)
    _set_environment(env)
    if path is not None:
        sys.path[:] = path
    kept = [os.memfd_create("procession-printed", os.MFD_CLOEXEC) for _ in range(2)]
    saved = [os.dup(fd) for fd in (1, 2)]
    for fd, file in zip((1, 2), kept, strict=True):
        os.dup2(file, fd)
    try:
        for name in modules:
            _import(name, failed)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # pyright: ignore[reportUnnecessaryComparison] - closed ones
                stream.flush()
    finally:
        for fd, old in zip((1, 2), saved, strict=True):
            os.dup2(old, fd)
            os.close(old)
        printed = _contents(kept[0]), _contents(kept[1])
        variables = {n: v for n, v in os.environ.items() if env.get(n) != v}
        _set_environment(before)
        sys.path[:] = own_path
    return printed, variables


def _set_environment(env: dict[str, str]) -> None:
    for name in os.environ.keys() - env.keys():
        del os.environ[name]
    os.environ.update(env)


def _import(name: str, failed: list[str]) -> None:
    package, _, child = name.rpartition(".")
    if package and hasattr(sys.modules.get(package), child):
        return  # it is there already, or the package means something else by this name
    try:
        __import__(name)
    except BaseException as e:
        failed.append(f"{name} ({type(e).__name__})")
        # Forget what is left of it: the rank is to try anew.
        for each in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
            del sys.modules[each]


def _fault(sockets: int) -> str:
    """Look at this process after the imports: say what no fork would survive, "" if nothing."""
    if _threads() > 1:
        # Libraries that stop their threads before a fork (OpenBLAS) show it in this one.
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)
        if _threads() > 1:
            return "an import started a thread"
    if _open("socket:") > sockets:
        return "an import opened a connection"
    for device in DEVICES:
        if _open(device):
            return f"an import opened {device}*"
    cuda: Any = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        return "an import initialised CUDA"
    return ""


def after_fork(printed: tuple[bytes, bytes], variables: dict[str, str]) -> None:
    """Make a forked rank what a fresh interpreter would be that had imported all this by itself."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)
    for fd, text in zip((1, 2), printed, strict=True):
        view = memoryview(text)
        try:
            while view:
                view = view[os.write(fd, view) :]
        except OSError:
            pass  # nobody reads
    # `random` reseeds itself in a fork; torch begins with the same seed in every process, anyway.
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _open(prefix: str) -> int:
    """Count the open descriptors that lead to something with this prefix."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith(prefix)
        except OSError:
            pass  # the listing's own
    return count


def _contents(fd: int) -> bytes:
    text = os.pread(fd, 1 << 20, 0)
    os.close(fd)
    return text
