"""Imports in the agent, before any rank is forked: what all ranks will import anyway.

Theory of operation. A module that is imported here is imported once for all ranks, and its pages
are shared. That is sound on three conditions. The import has started nothing that a fork would
break: threads (except those of libraries that stop and restart theirs around a fork), processes,
connections, devices. It has changed nothing that this process and its ranks do not share, such as
the handler of a signal. And the program cannot notice that another module has imported it, as it
could by a warning that names the importing line. So the process inspects itself afterwards. If it
finds something, it says what, and every rank gets a fresh interpreter without preloading. What the
imports printed is kept, and printed by each rank. A module that cannot be imported is left to the
rank, which then fails by itself, with its own traceback.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time

from procession.system import tree
from procession.worker.setup import replace_environment

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

    from procession.agent.imported import Imported
    from procession.agent.wanted import Preload

    Variables = dict[str, tuple[str, str | None]]

DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel", "/dev/neuron", "/dev/davinci")
NEVER = 2_000_000_011  # objects: a threshold for the collector that nobody else sets
C10D, DESTROY = "torch.distributed.distributed_c10d", "destroy_process_group"
MOMENT = 0.03  # seconds


class Preloaded:
    """What this process has imported before it forks ranks.

    fault: why no rank may be forked from this process, "" if ranks may. culprit: the module whose
    import that was, "" if that is not known. failed: modules that could not be imported. printed:
    what the imports wrote to stdout and to stderr. variables: those of the environment that the
    imports have set, see `renewal.after_fork`. imported: what decided them, if they are watched;
    wish: what was asked for last.
    """

    def __init__(self) -> None:
        self.fault = self.culprit = ""
        self.failed: list[str] = []
        self.printed: tuple[bytes, bytes] = (b"", b"")
        self.variables: Variables = {}
        self.imported: Imported | None = None
        # The names of the importing module: a warning about the import leaves a mark there.
        self._importer: dict[str, Any] = {"__name__": "__main__"}

    def add(self, wish: Preload) -> None:
        """Import modules in order, except those already imported."""
        self.wish, env = wish, {**wish.env}
        if wish.watched and self.imported is None:
            from procession.agent.imported import Imported

            self.imported = Imported(env)
        imported = self.imported
        self.failed = []
        threads = 1
        before = sockets()  # those of ranks that are still to be forked are among them
        surroundings = Surroundings(env, wish.path, wish.cwd)
        wanted = [name for name in wish.modules if name not in sys.modules]
        if wanted and not self.fault:
            # The collector takes a sixth of the time of large imports. It is not switched off: an
            # import may ask for that, or do it itself. One that sets the threshold keeps its own.
            threshold = gc.get_threshold()
            gc.set_threshold(NEVER)
            with surroundings:
                if imported is not None:
                    imported.begin_recording()
                for name in wanted:
                    self._import(name)
                    if not self.culprit and _threads() > threads:
                        self.culprit = name if fault_of("", before) else ""
                        threads = _threads()
                if imported is not None:
                    imported.end(env, self.failed)
            if gc.get_threshold()[0] == NEVER:
                gc.set_threshold(*threshold)
            printed, variables = surroundings.printed, surroundings.variables
            self.printed = self.printed[0] + printed[0], self.printed[1] + printed[1]
            self.variables.update((n, v) for n, v in variables.items() if n not in wish.unset)
            self.fault = (
                self.fault
                or surroundings.fault
                or fault_of(f"importing {self.culprit}" if self.culprit else "an import", before)
            )
            if "__warningregistry__" in self._importer:
                why = "an import warned, and the warning names the line that imports"
                self.fault = self.fault or why
            if wish.listed:
                drop_finalizers()
            _let_process_groups_end()
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
            # Remove what is left of it: the rank will try again.
            for each in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
                if _is_native(sys.modules[each]):
                    self.fault = f"an import failed half-way ({self.failed[-1]})"
                del sys.modules[each]


def sockets() -> int:
    """Count the sockets of this process."""
    return _open("socket:")


def fault_of(what: str, before: int) -> str:
    """Check this process after it ran other code: say what a fork would break, "" if nothing.

    what: names that code. before: how many sockets there were.
    """
    if _threads() > 1:
        # Libraries that stop their threads before a fork (OpenBLAS) show it in this one.
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)
        if _threads() > 1:
            return f"{what} started a thread"
    if tree.children():
        return f"{what} started a process"
    if sockets() > before:
        return f"{what} opened a connection"
    for device in DEVICES:
        if _open(device):
            return f"{what} opened {device}*"
    cuda: Any = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        return f"{what} initialised CUDA"
    return ""


class Surroundings:
    """What imports see and may change: within `with` as in the ranks, restored after it.

    what: names the imports. output: descriptors of files for what they print, None to keep it.
    printed, variables: as in `Preloaded`, of the imports of the last `with` block. fault: what the
    imports changed that ranks would not have.
    """

    def __init__(
        self,
        env: dict[str, str],
        path: list[str] | tuple[str, ...] | None,
        cwd: str,
        what: str = "an import",
        output: tuple[int, int] | None = None,
    ) -> None:
        mark = {n: os.environ[n] for n in ("PROCESSION_LAUNCHER",) if n in os.environ}
        self._env, self._cwd = {**env, **mark}, cwd
        self._path = list(sys.path if path is None else path)
        self._what, self._output = what, output
        self.printed: tuple[bytes, bytes] = (b"", b"")
        self.variables: Variables = {}

    def __enter__(self) -> None:
        self.fault = ""
        self._before = dict(os.environ), list(sys.path), os.getcwd(), _handlers()
        replace_environment(self._env)
        sys.path[:] = self._path
        try:
            os.chdir(self._cwd)
        except OSError:
            pass  # ranks cannot start there either
        self._there = os.getcwd()
        self._kept: list[int] = []
        if self._output is None:
            self._kept = [os.memfd_create("procession-printed", os.MFD_CLOEXEC) for _ in range(2)]
        self._saved = [os.dup(fd) for fd in (1, 2)]
        for fd, file in zip((1, 2), self._output or self._kept, strict=True):
            os.dup2(file, fd)

    def __exit__(self, *_: object) -> None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # pyright: ignore[reportUnnecessaryComparison] - closed ones
                try:
                    stream.flush()
                except OSError:
                    pass  # nobody reads it, or the disk is full
        for fd, old in zip((1, 2), self._saved, strict=True):
            os.dup2(old, fd)
            os.close(old)
        if self._kept:
            self.printed = _contents(self._kept[0]), _contents(self._kept[1])
        found = self._env.get
        self.variables = {n: (v, found(n)) for n, v in os.environ.items() if found(n) != v}
        env, path, cwd, handlers = self._before
        if sys.path != self._path:
            self.fault = f"{self._what} changed sys.path"
        elif not _is_here(self._there):
            self.fault = f"{self._what} changed the working directory"
        elif self._env.keys() - os.environ.keys():
            self.fault = f"{self._what} took away a variable of the environment"
        for number, handler in _handlers().items():
            if handler is not handlers[number]:
                self.fault = f"{self._what} took hold of a signal"
                if handlers[number] is not None:  # else it was not Python's, as with faulthandler
                    signal.signal(number, handlers[number])
        replace_environment(env)
        sys.path[:] = path
        os.chdir(cwd)


def drop_finalizers() -> None:
    """Keep ranks from running finalizers of the imports: for torch, 40 ms and many pages each."""
    import weakref

    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        finalizer.atexit = False


def _let_process_groups_end() -> None:
    """Work around a fault of torch (seen in 2.13.0) that shows more often after early imports.

    After the last collective operation a thread of Gloo gives up an object of Python, for which it
    needs the interpreter's lock. If `destroy_process_group` returns meanwhile, and a model of
    DistributedDataParallel is then freed, the main thread frees the process group, holds the lock,
    and waits for that thread: the rank never ends. Where a rank imports torch for itself, what its
    first step still imports keeps the two apart. So in ranks that have all imports from the
    beginning, that function first gives the lock away for a moment, wherever it is known by its
    name. By itself, torch hangs in the same way if a script begins with `import torch._dynamo`.

    Rejected: not to import `torch._dynamo` before, which is most of what a second run gains.
    """
    destroy: Any = getattr(sys.modules.get(C10D), DESTROY, None)
    if destroy is None or hasattr(destroy, "procession_waits"):
        return
    from functools import wraps

    @wraps(destroy)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        time.sleep(MOMENT)  # without the lock
        return destroy(*args, **kwargs)

    destroy_process_group.__dict__["procession_waits"] = True
    for module in list(sys.modules.values()):
        names: dict[str, Any] = getattr(module, "__dict__", {})
        if names.get(DESTROY) is destroy:
            names[DESTROY] = destroy_process_group


def _is_here(directory: str) -> bool:
    try:
        return os.getcwd() == directory
    except OSError:
        return False  # it is gone


def _handlers() -> dict[int, Any]:
    return {n: signal.getsignal(n) for n in signal.valid_signals()}


def _is_native(module: object) -> bool:
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    return type(loader).__name__ == "ExtensionFileLoader"


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
