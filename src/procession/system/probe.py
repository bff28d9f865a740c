"""Asking the machine: which features of the kernel work here, and its limits.

Each feature is really used, in a way that leaves nothing behind: a container's seccomp filter may
refuse what the kernel has. What would change this process is tried in a forked child. Nothing here
raises: None, or a reason in words, stands for what could not be found out.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import socket
import sysconfig
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from procession.system.directories import (
    Refused,
    inside,
    open_runtime,
    runtime_directory,
    state_directory,
)
from procession.system.inotify import Inotify
from procession.system.prctl import become_subreaper, die_with_parent

SECONDS = 2  # that a trial may take; each of its processes has an alarm for this
SYS_CLOSE_RANGE = 436  # on all architectures but alpha


@dataclass(frozen=True)
class Tried:
    """Whether a feature works; if not, why."""

    works: bool
    why: str = ""


def _try(trial: Callable[[], object]) -> Tried:
    """Run a trial, which may raise. The feature works if it returns nothing or ""."""
    try:
        why = str(trial() or "")
    except AttributeError:
        why = "this Python was built without it"
    except Refused as e:
        why = str(e)
    except Exception as e:
        why = (e.strerror if isinstance(e, OSError) else None) or f"{type(e).__name__}: {e}"
    return Tried(not why, why)


def _fork() -> int:
    """Fork; the child ends by an alarm if by nothing else, and has no handlers for signals."""
    with warnings.catch_warnings():  # Python 3.12 warns if there are threads
        warnings.simplefilter("ignore")
        pid = os.fork()
    if not pid:
        for number in (signal.SIGALRM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        signal.alarm(SECONDS)
    return pid


def _sleeper() -> int:
    """Fork a child that only waits for its end."""
    pid = _fork()
    while not pid:
        signal.pause()
    return pid


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except OSError:
        pass  # waited for before, or the program ignores SIGCHLD


def _readable(fd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _try_in_child(trial: Callable[[], object]) -> Tried:
    def forked() -> str:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        pid = 0
        try:
            try:
                pid = _fork()
                if not pid:
                    try:
                        os.write(write_end, b"=" + _try(trial).why.encode()[:4000])
                    finally:
                        os._exit(0)
            finally:
                os.close(write_end)
            # One message; there is no end-of-file while a grandchild has the pipe.
            said = os.read(read_end, 4096) if _readable(read_end, SECONDS + 0.5) else b""
        finally:
            os.close(read_end)
            if pid:
                _end(pid)
        return said[1:].decode(errors="replace") if said else "its trial did not end"

    return _try(forked)


def _pidfd_open() -> None:
    os.close(os.pidfd_open(os.getpid()))


def _pidfd_send_signal() -> str:
    pid = _sleeper()
    try:
        fd = os.pidfd_open(pid)
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        return "" if _readable(fd, SECONDS / 2) else "the process lived on"
    finally:
        _end(pid)


def _waitid() -> str:
    pid = _sleeper()
    try:
        fd = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        ended = os.waitid(os.P_PIDFD, fd, os.WEXITED)
        return "" if ended is not None and ended.si_pid == pid else "it reported another process"
    finally:
        _end(pid)


def _subreaper() -> str:
    become_subreaper()
    child = _fork()
    if not child:
        try:
            _fork()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        return "an orphan went to another process"
    return ""


def _parent_death_signal() -> str:
    read_end, write_end = os.pipe()
    child = _fork()
    if not child:
        parent = os.getpid()
        if not _fork():
            tried = _try(lambda: None if die_with_parent(parent) else "its parent was gone")
            os.write(write_end, (tried.why or str(os.getpid())).encode())
            if not tried.works:
                os._exit(1)
        while True:  # the child until it is killed, the grandchild until the child is
            signal.pause()
    os.close(write_end)
    said = os.read(read_end, 4096).decode()
    _end(child)
    if not said.isdecimal():
        return said or "its trial did not begin"
    if _readable(read_end, SECONDS / 2):  # the end of the last process that could write
        return ""
    os.kill(int(said), signal.SIGKILL)
    return "the process lived on"


def _door() -> None:
    """Make a socket in the user's directory for runs, as a launch does."""
    directory = -1
    try:
        directory = open_runtime(make=True)
        path = inside(directory, f".{os.getpid()}.doctor")
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path)
            try:
                os.link(path, f"{path}.link")  # as a run gets its name
                os.unlink(f"{path}.link")
            finally:
                os.unlink(path)
    finally:
        if directory >= 0:
            os.close(directory)
        try:
            os.rmdir(runtime_directory())
        except OSError:
            pass  # runs are in it


def _state() -> str:
    """Make a directory in that of records, as a run that is detached does."""
    place = state_directory()
    if not place:
        return "this user has no home directory"
    made: list[str] = []
    try:
        above = place
        while not os.path.isdir(above):
            made.append(above)
            above = os.path.dirname(above)
        for each in reversed(made):
            os.mkdir(each, 0o700)
        os.rmdir(tempfile.mkdtemp(prefix=".doctor-", dir=place))
    finally:
        for each in made:
            try:
                os.rmdir(each)
            except OSError:
                pass  # it could not be made, or a run uses it now
    return ""


def _close_range() -> str:
    if sysconfig.get_config_var("HAVE_CLOSE_RANGE") in (0, ""):
        return "this Python was built without it"
    libc = ctypes.CDLL(None, use_errno=True)
    nothing = ctypes.c_uint(0xFFFFFFFF)
    failed = libc.syscall(ctypes.c_long(SYS_CLOSE_RANGE), nothing, nothing, ctypes.c_uint(0))
    return os.strerror(ctypes.get_errno()) if failed else ""


def _inotify() -> None:
    watch = Inotify()
    try:
        watch.add("/")  # every user may read this directory
    finally:
        watch.close()


def _proc_children() -> None:
    pid = os.getpid()
    os.close(os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC))


HERE: dict[str, Callable[[], object]] = {
    "pidfd_open": _pidfd_open,
    "close_range": _close_range,
    "memfd_create": lambda: os.close(os.memfd_create("procession-doctor", os.MFD_CLOEXEC)),
    "eventfd": lambda: os.close(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)),
    "inotify": _inotify,
    "control": _door,
    "state": _state,
    "proc_children": _proc_children,
}
IN_CHILD: dict[str, Callable[[], object]] = {
    "pidfd_send_signal": _pidfd_send_signal,
    "waitid": _waitid,
    "subreaper": _subreaper,
    "parent_death_signal": _parent_death_signal,
}


def try_feature(name: str) -> Tried:
    """Try a feature of the kernel by its name in HERE or IN_CHILD."""
    return _try(HERE[name]) if name in HERE else _try_in_child(IN_CHILD[name])


# -- limits


def rlimit(name: str) -> tuple[int, int] | None:
    """Give the soft and the hard limit of this process, e.g. of NOFILE; -1: unlimited."""
    try:
        return resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
    except (AttributeError, OSError, ValueError):
        return None


def space(path: str) -> tuple[int, int] | None:
    """Give the size of a file system and what is free for this user, in bytes."""
    try:
        found = os.statvfs(path)
    except (OSError, ValueError):
        return None
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


# -- what is around this process

LAUNCHERS = {
    "Slurm": ("SLURM_JOB_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID"),
    "MPI": ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"),
    "Kubernetes": ("KUBERNETES_SERVICE_HOST",),
    "torchrun": ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "procession": ("PROCESSION_RUN",),
}


def launchers(env: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Give the variables that are set of each launcher that may have started this process."""
    return {name: {v: env[v] for v in known if v in env} for name, known in LAUNCHERS.items()}


def package(name: str) -> str | None:
    """Give the version of a package without importing it; None: it is not there."""
    import importlib.metadata
    import importlib.util

    try:
        if importlib.util.find_spec(name) is None:
            return None
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"
    except Exception:  # a package that is half imported, or whose metadata is damaged
        return None
