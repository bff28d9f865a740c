"""Imports in the forkserver, before any rank is forked: what all ranks will import anyway.

Theory of operation. A module that is imported here is imported once for all ranks, and its pages
are shared. That is sound only if importing it has started nothing that a fork would break: threads
(but for those of libraries that stop and restart theirs around a fork), processes, connections,
devices; if it changed nothing that this process and its ranks do not share, such as the handler of
a signal; and if the program cannot see that somebody else imported it, as it does where a warning
is about the one who imports. So the process looks at itself afterwards, and if something is there,
it says what, and every rank gets a fresh interpreter as if nothing had been preloaded. What the
imports printed is kept, and printed by each rank. A module that cannot be imported is left to the
rank, which then fails by itself, with its own traceback.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from procession.worker.renewal import renew

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel", "/dev/neuron", "/dev/davinci")
_NOT_SIGNALS = (signal.SIGKILL, signal.SIGSTOP)


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
        # The importer's names: an import's warning about who imports it is left there.
        self._importer: dict[str, Any] = {"__name__": "__main__"}

    def add(
        self,
        modules: list[str],
        late: list[str],
        env: dict[str, str],
        path: list[str] | None,
        cwd: str,
        sets: list[str],
        listed: bool,
    ) -> None:
        """Import modules in order, unless they are there, with the ranks' common environment.

        late: modules to import after those, which the program imports at a later time than its
        beginning. path: where to look for them, `sys.path` if None. cwd: the ranks' directory.
        sets: variables that the late ones are known to set, and to set again when they are used:
        ranks begin without them. listed: the modules are known, and with them that their
        finalizers (`weakref.finalize`) only give memory back.
        """
        self.failed = []
        surroundings = _Surroundings(env, path, cwd)
        for names, in_time in ((modules, True), (late, False)):
            wanted = [name for name in names if name not in sys.modules]
            if not wanted or self.fault:
                continue
            with surroundings:
                for name in wanted:
                    self._import(name)
            printed, variables = surroundings.printed, surroundings.variables
            if not in_time:
                variables = {n: v for n, v in variables.items() if n not in sets}
            self.printed = self.printed[0] + printed[0], self.printed[1] + printed[1]
            self.variables.update(variables)
            self.fault = self.fault or surroundings.fault or self._fault()
            if not in_time and (any(printed) or variables):
                what = f"set {min(variables)}" if variables else "printed something"
                self.fault = self.fault or f"an import {what}, which is too early"
            if listed:
                _drop_finalizers()
            gc.collect()
            gc.freeze()  # the collector of a rank must not touch, and so copy, pages that all share

    def _import(self, name: str) -> None:
        package, _, child = name.rpartition(".")
        if package and hasattr(sys.modules.get(package), child):
            return  # it is there already, or the package means something else by this name
        try:
            exec(f"import {name}", self._importer)
        except BaseException as e:
            self.failed.append(f"{name} ({type(e).__name__})")
            # Forget what is left of it: the rank is to try anew.
            for each in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
                if _is_native(sys.modules[each]):
                    self.fault = f"an import failed half-way ({self.failed[-1]})"
                del sys.modules[each]

    def _fault(self) -> str:
        """Look at this process after imports: say what no fork would survive, "" if nothing."""
        if _threads() > 1:
            # Libraries that stop their threads before a fork (OpenBLAS) show it in this one.
            pid = os.fork()
            if not pid:
                os._exit(0)
            os.waitpid(pid, 0)
            if _threads() > 1:
                return "an import started a thread"
        if _has_children():
            return "an import started a process"
        if _open("socket:") > self._sockets:
            return "an import opened a connection"
        for device in DEVICES:
            if _open(device):
                return f"an import opened {device}*"
        cuda: Any = sys.modules.get("torch.cuda")
        if cuda is not None and cuda.is_initialized():
            return "an import initialised CUDA"
        if "__warningregistry__" in self._importer:
            return "an import warned, and the warning names the line that imports"
        return ""


class _Surroundings:
    """What imports see and may change: made as in the ranks, and as before, afterwards.

    printed, variables: as in `Preloaded`, of the imports of the last `with` block. fault: what the
    imports changed that ranks would not have.
    """

    def __init__(self, env: dict[str, str], path: list[str] | None, cwd: str) -> None:
        self._env, self._cwd = env, cwd
        self._path = list(sys.path) if path is None else path

    def __enter__(self) -> None:
        self.fault = ""
        self._before = dict(os.environ), list(sys.path), os.getcwd(), _handlers()
        _set_environment(self._env)
        sys.path[:] = self._path
        try:
            os.chdir(self._cwd)
        except OSError:
            pass  # no rank will come into being
        self._there = os.getcwd()
        self._kept = [os.memfd_create("procession-printed", os.MFD_CLOEXEC) for _ in range(2)]
        self._saved = [os.dup(fd) for fd in (1, 2)]
        for fd, file in zip((1, 2), self._kept, strict=True):
            os.dup2(file, fd)

    def __exit__(self, *_: object) -> None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # pyright: ignore[reportUnnecessaryComparison] - closed ones
                stream.flush()
        for fd, old in zip((1, 2), self._saved, strict=True):
            os.dup2(old, fd)
            os.close(old)
        self.printed = _contents(self._kept[0]), _contents(self._kept[1])
        self.variables = {n: v for n, v in os.environ.items() if self._env.get(n) != v}
        env, path, cwd, handlers = self._before
        if sys.path != self._path:
            self.fault = "an import changed sys.path"
        elif not _is_here(self._there):
            self.fault = "an import changed the working directory"
        elif self._env.keys() - os.environ.keys():
            self.fault = "an import took away a variable of the environment"
        for number, handler in _handlers().items():
            if handler is not handlers[number]:
                self.fault = "an import took hold of a signal"
                signal.signal(number, handlers[number])
        _set_environment(env)
        sys.path[:] = path
        os.chdir(cwd)


def _drop_finalizers() -> None:
    """Have what was imported not be finalised in ranks: of torch, 40 ms and many pages for each."""
    import weakref

    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        finalizer.atexit = False


def _is_here(directory: str) -> bool:
    try:
        return os.getcwd() == directory
    except OSError:
        return False  # it is gone


def _handlers() -> dict[int, Any]:
    return {
        n: signal.getsignal(n)
        for n in signal.valid_signals()
        if n not in _NOT_SIGNALS and signal.getsignal(n) is not None
    }


def _set_environment(env: dict[str, str]) -> None:
    for name in os.environ.keys() - env.keys():
        del os.environ[name]
    os.environ.update(env)


def _is_native(module: object) -> bool:
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    return type(loader).__name__ == "ExtensionFileLoader"


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
    renew()


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


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
