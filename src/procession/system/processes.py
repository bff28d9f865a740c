"""Processes as /proc shows them: one or all, and what one is doing; and signals to them.

The kernel may reuse a pid between the look and the signal. So a process that was seen is signalled
by a pidfd, and only if its start time is still the same.
"""

from __future__ import annotations

import errno
import fcntl
import os

from procession.system import plain
from procession.system.files import pairs, process_fields, read
from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Final

DEAD = (b"Z", b"X")
PF_DYING = 0x4 | 0x200 | 0x400  # PF_EXITING, PF_DUMPCORE, PF_SIGNALED in include/linux/sched.h
# Errors of the process that looks, which say nothing about the one that is looked at.
NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class ProcessInfo(Value):
    """A process as /proc shows it. start: in clock ticks since the machine started.

    ticks: of CPU that it has used, with children that it has reaped. pages: that it holds. words,
    env: its command line, and the variables with which it was started, where they were read.
    """

    pid: int
    parent: int
    group: int
    start: int
    ticks: int = 0
    pages: int = 0
    session: int = 0
    words: tuple[str, ...] = ()
    env: Mapping[str, str] = {}


def seen_in(pid: int, fields: list[bytes]) -> ProcessInfo | None:
    """Read the fields of a process; None if it is gone, or a zombie."""
    # A process whose first thread has ended is shown as a zombie, even if other threads go on.
    if not fields or (fields[0] in DEAD and int(fields[17]) < 2):
        return None
    ticks = sum(map(int, fields[11:15]))
    start, pages = int(fields[19]), int(fields[21])
    return ProcessInfo(pid, int(fields[1]), int(fields[2]), start, ticks, pages, int(fields[3]))


def processes() -> dict[int, ProcessInfo]:
    """Give the processes that live, by pid.

    Raises OSError if this process has no descriptor or memory left to look with.
    """
    found: dict[int, ProcessInfo] = {}
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            seen = seen_in(int(name), process_fields(int(name)))
        except OSError as e:
            if e.errno in NO_ROOM:
                raise
            continue  # it is hidden
        if seen is not None:
            found[seen.pid] = seen
    return found


def look_at(pid: int) -> ProcessInfo | None:
    """Look at one process; None if it is gone, or a zombie."""
    try:
        return seen_in(pid, process_fields(pid))
    except OSError:
        return None


def directory_of(pid: int) -> str:
    """Give the current directory of a process; "" if it is gone, or not visible.

    It is visible to those who may look into the process, as a debugger would.
    """
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def below(tops: Iterable[int], seen: dict[int, ProcessInfo]) -> set[int]:
    """Give the descendants of some processes, without these."""
    return _under(tops, _children(seen))


def _children(seen: dict[int, ProcessInfo]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for each in seen.values():
        children.setdefault(each.parent, []).append(each.pid)
    return children


def _under(tops: Iterable[int], children: dict[int, list[int]]) -> set[int]:
    found: set[int] = set()
    waiting = list(tops)
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            if pid not in found:
                found.add(pid)
                waiting.append(pid)
    return found


def parents(pid: int) -> list[int] | None:
    """Give the ancestors of a process, the nearest first.

    None if the process is gone, or its ancestors change during the look.
    """
    found: list[int] = []
    now = look_at(pid)
    while now is not None and now.parent not in (0, *found):
        found.append(now.parent)
        above = look_at(now.parent)
        if above is None and look_at(now.pid) == now:
            return found  # the parent is there, and hidden
        now = above
    return None if now is None else found


def pidfd_of(pid: int) -> int:
    """Open the pidfd of a process; -1 if there is none, or no descriptor is left for it."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def send(process: ProcessInfo, number: int) -> None:
    """Signal a process that was seen, unless another process has its pid by now."""
    pidfd = pidfd_of(process.pid)
    try:
        now = look_at(process.pid)
        same = now is not None and now.start == process.start
        # A stopped process could not obey.
        numbers = (number,) if number == plain.SIGKILL else (number, plain.SIGCONT)
        for each in numbers if same else ():
            if pidfd >= 0:
                plain.pidfd_send_signal(pidfd, each)
            else:
                os.kill(process.pid, each)
    except OSError:
        pass  # gone, or another user's
    finally:
        if pidfd >= 0:
            os.close(pidfd)


def is_dying(pid: int) -> bool:
    """Whether a process has begun to die, or will without another instruction of its program.

    So from its `exit`, or from a signal that ends it, on: long before it is a zombie if much memory
    is to be given back, or a core file to be written. Also true if it cannot be seen.
    """
    return caught_alive(pid) < 0


class Ran(Value):
    """For how many seconds a process has run: main: its main thread, own: all its threads.

    others: the processes below it, with those that have ended. 0.0 stands for what is not known.
    """

    main: float = 0.0
    own: float = 0.0
    others: float = 0.0


def run_seconds(pids: Iterable[int]) -> dict[int, Ran]:
    """Give for how long processes have run so far, by pid; those of which it can be seen."""
    try:
        seen, tick = processes(), os.sysconf("SC_CLK_TCK")
    except OSError:
        return {}  # no descriptor is left to look with
    children, found = _children(seen), dict[int, Ran]()
    for pid in pids:
        try:
            own = sum(map(int, process_fields(pid)[11:13]))
            main = int((read(f"/proc/{pid}/schedstat") or "0").split()[0]) / 1e9
        except (OSError, ValueError):
            continue
        whole = sum(seen[each].ticks for each in (pid, *_under((pid,), children)) if each in seen)
        found[pid] = Ran(main, own / tick, max(0, whole - own) / tick)
    return found


def caught_alive(pid: int) -> int:
    """Give the signals that a process has handlers for, as a set of bits; -1 if it is dying.

    Of the first 31 signals. A process that is in a handler of `faulthandler` has taken away the
    handler of that signal. See `is_dying`.
    """
    try:
        fields = process_fields(pid)
        # See proc_pid_stat(5). An exit and a deadly signal give SIGKILL to every thread.
        flags, pending, caught = int(fields[6]), int(fields[28]), int(fields[31])
    except (OSError, IndexError, ValueError):
        return -1
    return -1 if flags & PF_DYING or pending >> (plain.SIGKILL - 1) & 1 else caught


def status_of_zombie(pid: int) -> int | None:
    """Give the wait status of a zombie (dead, and not reaped yet).

    None if it is no zombie, or if the kernel does not show the status to this user.
    """
    try:
        fields = process_fields(pid)
        if fields[0] != b"Z":
            return None
        # Without the right to read this, /proc shows 0 for every status.
        os.readlink(f"/proc/{pid}/ns/user")
        return int(fields[49])
    except (OSError, IndexError, ValueError):
        return None


STOPPED: Final = "Tt"
ENDED: Final = "ZX"
# A main thread that waits there goes on after any handler has run: our signal would wake it.
WAITS_FOR_SIGNAL = ("pause", "sigsuspend")


class ProcState(Value):
    """The state of a process: its letter as `ps` shows it, and its signals as sets of bits.

    blocked: in its main thread.
    """

    letter: str
    caught: int
    blocked: int

    def catches(self, number: int) -> bool:
        """Whether it has a handler for a signal."""
        return bool(self.caught >> (number - 1) & 1)


def state_of(pid: int) -> ProcState | None:
    """Look at a process, None if there is none."""
    fields = pairs(f"/proc/{pid}/status", ":")
    try:
        return ProcState(
            letter=fields["State"][0],
            caught=int(fields["SigCgt"], 16),
            blocked=int(fields["SigBlk"], 16),
        )
    except (KeyError, ValueError, IndexError):
        return None


def wait_channel(pid: int) -> str:
    """Give the kernel's function that its main thread sleeps in, "" if it does not, or unknown."""
    return (read(f"/proc/{pid}/wchan") or "").removeprefix("0")


def waits_for_signal(channel: str) -> bool:
    """Whether a thread that sleeps there waits for a signal, as in `signal.pause()`."""
    return any(word in channel for word in WAITS_FOR_SIGNAL)


def describe(pid: int) -> str:
    """Say what a process does, as the verb of a sentence: "sleeps (in ep_poll)"."""
    state = state_of(pid)
    if state is None or state.letter in ENDED:
        return "is gone"
    channel = wait_channel(pid)
    where = f" (in {channel})" if channel else ""
    if state.letter in STOPPED:
        return "is stopped (as by SIGSTOP, or by a debugger)"
    if state.letter == "D":
        return f"is in uninterruptible sleep{where}"
    if waits_for_signal(channel):
        return "waits for a signal"
    return "runs" if state.letter == "R" else f"sleeps{where}"


# -- signals: that wait, to groups, and when something happens to a socket


class BlockedSignals:
    """A block in which these signals wait, in this thread: `with BlockedSignals(...) as before`.

    Gives the mask from before. Python looks for signals in `pthread_sigmask` itself, after the
    change: a KeyboardInterrupt from there must not leave them blocked for ever.
    """

    def __init__(self, signals: Collection[int]) -> None:
        self._signals = signals

    def __enter__(self) -> set[int]:
        self._before: set[int] = set(plain.pthread_sigmask(plain.SIG_BLOCK, ()))
        try:
            plain.pthread_sigmask(plain.SIG_BLOCK, self._signals)
        except BaseException:
            self.__exit__()
            raise
        return self._before

    def __exit__(self, *_: object) -> None:
        plain.pthread_sigmask(plain.SIG_SETMASK, self._before)


def signal_groups(pids: list[int], number: int) -> None:
    """Signal the process groups that these processes lead, and let them go on if they stand still.

    All are told before the first goes on. Those that are gone are left out.
    """
    # A stopped process could not obey.
    for each in (number,) if number == plain.SIGKILL else (number, plain.SIGCONT):
        for pid in pids:
            try:
                signal_group(pid, each)
            except OSError:
                pass


def signal_group(pid: int, number: int) -> None:
    """Signal the process group that a process leads, or is about to. Raises OSError."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:  # it has not made its session yet
        os.kill(pid, number)


_F_SETSIG = 10


def wake(fd: int, pid: int, number: int = plain.SIGCONT) -> None:
    """Send a signal to a process when something happens to a socket. Raises OSError."""
    fcntl.fcntl(fd, fcntl.F_SETOWN, pid)
    fcntl.fcntl(fd, _F_SETSIG, int(number))
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


def wake_no_more(fd: int) -> None:
    """Take that back. Raises OSError."""
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_ASYNC)
