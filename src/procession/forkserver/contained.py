"""A forkserver whose ranks cannot outlive it: in a namespace of pids, or in a cgroup.

Theory of operation. A forkserver that has done nothing yet is told to contain itself ("contain").
It forks: the child is the forkserver from now on, inside; the first process stays outside as its
*guard*. The guard has no descriptor, hears no signal, and waits for the end of the forkserver. Then
nothing of the ranks is left:

- in a namespace of pids, because the forkserver was its first process, with which the kernel kills
  all others;
- in a cgroup, because the guard kills all that is in it, and removes it.

If the guard is killed, the forkserver gets SIGKILL by its parent-death signal. So it takes the
SIGKILL of launcher, forkserver and guard at the same moment to leave something in a cgroup, and
nothing is left of a namespace even then. The guard ends as the forkserver has ended: its parent,
the launcher, sees no difference.

The launcher counts processes by the numbers that it sees; those inside are others, and so every
number is translated here before it is reported.
"""

from __future__ import annotations

import errno
import os
import resource
import select

from procession.system import killgroup
from procession.system.namespaces import Outside, enter, part
from procession.system.prctl import die_with_parent
from procession.system.signals import plain as signal

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import NoReturn

ALL_SIGNALS = signal.valid_signals()


class Contained:
    """What the forkserver inside knows of outside.

    pid: its number for the launcher. group: the directory of its cgroup, "" if it has none.
    """

    def __init__(self, pid: int, group: str, outside: Outside | None) -> None:
        self.pid = pid
        self.group = group
        self._outside = outside

    @property
    def fds(self) -> list[int]:
        """The descriptors that a rank must not have."""
        return [] if self._outside is None else self._outside.fds

    def number(self, pid: int, pidfd: int) -> int:
        """Give the number of a child that is not reaped yet, as the launcher has it.

        pidfd: of it, or -1. Raises OSError.
        """
        return pid if self._outside is None else self._outside.of(pid, pidfd)


def contain(kind: str, place: str, mark: str) -> Contained:
    """Go inside; this process becomes the guard and does not return.

    To be called with no children. place: the directory below which a cgroup is made. mark: its
    launcher's. Gives, inside, what is to be known there. Raises OSError in the first process if
    that cannot be done: then the process is of no use any more.
    """
    of_user = kind == "pidns" and part()
    outside = Outside() if kind == "pidns" else None
    group = killgroup.make(place, mark) if kind == "cgroup" else ""
    guard = os.pidfd_open(os.getpid())
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ALL_SIGNALS)
    try:
        pid = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if group:
            killgroup.end(group)
        raise
    if not pid:
        try:
            os.close(read_end)
            os.setsid()
            if group:
                killgroup.join(group)
            else:
                enter(of_user=of_user)
            own = os.getpid() if outside is None else outside.own()
            die_with_parent(0)
            if _is_gone(guard):
                os._exit(1)
            os.close(guard)
            os.write(write_end, b"+")
            os.close(write_end)
        except BaseException as e:
            number = (e.errno if isinstance(e, OSError) else 0) or errno.EIO
            text = (e.strerror if isinstance(e, OSError) else None) or f"{type(e).__name__}: {e}"
            os.write(write_end, f"{number} {text}".encode()[:4000])
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return Contained(own, group, outside)
    os.close(write_end)
    said = os.read(read_end, 4096)
    if said == b"+":
        _guard(pid, group)
    _, status = os.waitpid(pid, 0)
    os.close(read_end)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if group:
        killgroup.end(group)
    number, _, text = said.decode(errors="replace").partition(" ")
    why = f"its first process ended ({os.waitstatus_to_exitcode(status)})"
    raise OSError(int(number or errno.EIO), text or why)


def _is_gone(guard: int) -> bool:
    poll = select.poll()
    poll.register(guard, select.POLLIN)
    return bool(poll.poll(0))


def _guard(pid: int, group: str) -> NoReturn:
    """Wait for the end of the forkserver, with all signals blocked, and end as it did."""
    try:
        os.closerange(0, max(int(name) for name in os.listdir("/proc/self/fd")) + 1)
        _, status = os.waitpid(pid, 0)
        if group:
            killgroup.end(group)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # there is a core already, if any
            if -code not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-code, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
            os.kill(os.getpid(), -code)
        os._exit(code)
    finally:
        os._exit(1)
