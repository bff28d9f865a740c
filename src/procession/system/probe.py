"""Asking the machine: which features of the kernel work here.

Each feature is really used: a container's seccomp filter may refuse what the kernel has. Each trial
runs in a forked child, so that no descriptor and no process of it is left.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sysconfig
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress

from procession.system.directories import (
    Refused,
    open_runtime,
    runtime_directory,
    state_directory,
)
from procession.system.inotify import Inotify
from procession.system.prctl import become_subreaper, die_with_parent

SECONDS = 2  # that a trial may take; each of its processes has an alarm for this
SYS_CLOSE_RANGE = 436  # on all architectures but alpha


class Fails(Exception):
    """A feature does not do what it should; says why."""


def why_not(trial: Callable[[], object]) -> str:
    """Run a trial in a child; gives why the feature does not work, "" if it raises nothing."""
    try:
        read_end, write_end = os.pipe()
        try:
            pid = _fork()
        except OSError:
            os.close(write_end)
            os.close(read_end)
            raise
    except OSError as e:
        return os.strerror(e.errno or 0)
    if not pid:
        try:
            os.write(write_end, b"=" + _said(trial).encode()[:4000])
        finally:
            os._exit(0)
    os.close(write_end)
    said = b""
    while _readable(read_end) and (more := os.read(read_end, 4096)):
        said += more
    os.close(read_end)
    with suppress(OSError):  # the program ignores SIGCHLD
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return said[1:].decode(errors="replace") if said else "its trial did not end"


def _said(trial: Callable[[], object]) -> str:
    try:
        trial()
    except AttributeError:
        return "this Python was built without it"
    except Exception as e:
        if isinstance(e, OSError) and e.strerror:
            return e.strerror
        return str(e) if isinstance(e, Fails | Refused) else f"{type(e).__name__}: {e}"
    return ""


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


def _readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll((SECONDS + 0.5) * 1000))


def _pidfd() -> None:
    pid = _fork()
    while not pid:
        signal.pause()
    fd = os.pidfd_open(pid)
    signal.pidfd_send_signal(fd, signal.SIGKILL)
    ended = os.waitid(os.P_PIDFD, fd, os.WEXITED)
    if ended is None or ended.si_pid != pid:
        raise Fails("it reported another process")


def _close_range() -> None:
    if sysconfig.get_config_var("HAVE_CLOSE_RANGE") in (0, ""):
        raise Fails("this Python was built without it")
    libc, nothing = ctypes.CDLL(None, use_errno=True), ctypes.c_uint(0xFFFFFFFF)
    if libc.syscall(ctypes.c_long(SYS_CLOSE_RANGE), nothing, nothing, ctypes.c_uint(0)):
        raise Fails(os.strerror(ctypes.get_errno()))


def _control() -> None:
    """Make the user's directory for sockets of runs, as a launch does."""
    open_runtime(make=True)
    with suppress(OSError):  # runs are in it
        os.rmdir(runtime_directory())


def _state() -> None:
    """Make a directory in that of records, as a run that is detached does."""
    place = state_directory()
    if not place:
        raise Fails("this user has no home directory")
    os.makedirs(place, 0o700, exist_ok=True)
    os.rmdir(tempfile.mkdtemp(prefix=".doctor-", dir=place))


TRIALS: dict[str, Callable[[], object]] = {
    "pidfd": _pidfd,
    "subreaper": become_subreaper,
    "parent_death_signal": lambda: die_with_parent(0),
    "memfd_create": lambda: os.memfd_create("procession-doctor"),
    "eventfd": lambda: os.eventfd(0),
    "close_range": _close_range,
    "inotify": lambda: Inotify().add("/"),  # every user may read this directory
    "proc_children": lambda: os.open("/proc/thread-self/children", os.O_RDONLY),
    "proc": lambda: os.open("/proc/self/status", os.O_RDONLY),
    "control": _control,
    "state": _state,
}
