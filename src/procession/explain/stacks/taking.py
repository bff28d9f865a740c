"""Asks processes for their stacks, many at a time, and waits for none of them.

Theory of operation. See `worker.stackfile` for how a rank answers. Before it is asked, it is looked
at: the signal goes only to a rank that has a handler for it (a program that a rank has become has
none). It does not go to a rank that is stopped, has the signal blocked, or sleeps until a signal
comes (ours would wake it). Then timers of the loop look at the memory file repeatedly: the kernel
does not notify anybody of its growth, and the whole takes a few milliseconds. A dump is complete
when the outermost frame of the main thread is there; if that frame is not known, when the dump has
not grown for a while.

What another process has written is not trusted: `text`, which reads it, expects any bytes.
"""

from __future__ import annotations

import errno
import math
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable

from procession.system.eventloop import EventLoop
from procession.system.processes import (
    ENDED,
    STOPPED,
    describe,
    state_of,
    wait_channel,
    waits_for_signal,
)
from procession.values.base import Record
from procession.worker.stackfile import FIRST_FD, SIGNAL, name_of

MOST = 1 << 20  # bytes of one rank's dump
SHORTEST, LONGEST = 0.001, 0.02  # seconds between two looks of the loop, which counts in ms
# A few answer sooner than the loop can look: they are waited for, so often and so many seconds.
FEW, LOOKS, BRIEF = 16, 4, 0.0002
TO_MAIN_THREAD = 1  # PIDFD_SIGNAL_THREAD, since Linux 6.9: to the thread whose number the pid is
UNCHANGED = 0.004  # seconds after which a dump whose end is not known is taken for whole
# The outermost frame of a rank: of `entry.py`, or of the launcher that it was forked from.
ENDS = ('/procession/forkserver/entry.py"', '"<string>"', '"<frozen runpy>"')


class Taken(Record):
    """What was seen of one process.

    letter: of its state, as `ps` shows it, before it was asked; in the end where it gave no dump.
    state: what it does then, as the verb of a sentence; "" where it gave one. text: its dump.
    pending: whether a signal that it had before is still to be answered.
    """

    rank: int
    pid: int
    letter: str = ""
    state: str = ""
    text: bytes = b""
    pending: bool = False


class _Asked(Record):
    taken: Taken
    fd: int
    grown_at: float


class Taking:
    """Takes stacks once.

    wanted: (rank, pid, pidfd) of each; a pidfd of -1 is only looked at. seconds: the most that it
    takes. lives: whether a rank is still there. done: called once with what was seen, in the order
    of `wanted`: within `start`, or later by the loop.
    """

    def __init__(
        self,
        loop: EventLoop,
        wanted: Iterable[tuple[int, int, int]],
        seconds: float,
        lives: Callable[[int], bool],
        done: Callable[[list[Taken]], None],
    ) -> None:
        self._loop = loop
        self._wanted = list(wanted)
        self._ends = time.monotonic() + seconds
        self._lives = lives
        self._done = done
        self._all: list[Taken] = []
        self._open: list[_Asked] = []
        self._pause = SHORTEST
        self.over = False

    def start(self) -> None:
        """Ask them."""
        ready: list[tuple[Taken, int, int]] = []
        for rank, pid, pidfd in self._wanted:
            taken = Taken(rank, pid)
            self._all.append(taken)
            fd = _look_at(taken, pidfd)
            if fd >= 0:
                ready.append((taken, pidfd, fd))
        for taken, pidfd, fd in ready:  # all in one go, for a picture of one moment
            if _ask(taken, pidfd, fd):
                self._open.append(_Asked(taken, fd, time.monotonic()))
            else:
                os.close(fd)
        if len(self._open) <= FEW:
            self._look_soon()
        self._wait()

    def _look_soon(self) -> None:
        for _ in range(LOOKS):
            if not self._open or time.monotonic() + BRIEF > self._ends:
                return
            time.sleep(BRIEF)
            self._see()

    def _wait(self) -> None:
        left = self._ends - time.monotonic()
        if not self._open or left <= 0:
            self.finish()
            return
        self._loop.after(self, min(self._pause, left), self._look)
        self._pause = min(self._pause * 1.3, LONGEST)

    def _look(self) -> None:
        self._see()
        self._wait()

    def _see(self) -> None:
        still: list[_Asked] = []
        for asked in self._open:
            if _is_whole(asked) or not self._lives(asked.taken.rank):
                os.close(asked.fd)
            else:
                still.append(asked)
        self._open = still

    def finish(self) -> None:
        """Give what there is now, if it was not given yet."""
        if self.over:
            return
        self.drop()
        for taken in self._all:
            if not taken.text and not taken.state:
                state = state_of(taken.pid)  # which the signal may have changed
                taken.letter = state.letter if state is not None else ""
                taken.state = describe(taken.pid)
        self._done(self._all)

    def drop(self) -> None:
        """Give nothing any more."""
        self.over = True
        self._loop.cancel(self)
        for asked in self._open:
            _is_whole(asked)
            os.close(asked.fd)
        self._open = []


def _look_at(taken: Taken, pidfd: int) -> int:
    """Look whether a process may get the signal; gives its memory file then, else -1."""
    state = state_of(taken.pid)
    if state is None or state.letter in ENDED:
        taken.state = "is gone"
        return -1
    taken.letter = state.letter
    channel = wait_channel(taken.pid) if state.letter == "S" else ""
    if state.letter in STOPPED or waits_for_signal(channel):
        taken.state = describe(taken.pid)
        return -1
    if pidfd < 0 or not state.catches(SIGNAL):
        return -1
    if state.blocks(SIGNAL):  # another thread would get it, and show its own stack
        taken.state = "has its signals blocked"
        return -1
    if state.ends_by(signal.SIGXFSZ) and _most_written(taken.pid) < MOST:
        return -1  # it would die of what it writes; as a rule Python ignores that signal
    taken.pending = state.awaits(SIGNAL)
    return _memory_file(taken.pid)


def _ask(taken: Taken, pidfd: int, fd: int) -> bool:
    """Ask a process, unless it was asked before and has not answered yet; gives whether it was."""
    try:
        os.ftruncate(fd, 0)
        if waits_for_signal(wait_channel(taken.pid)):  # by now
            taken.state = describe(taken.pid)
            return False
        if not taken.pending:
            _send(pidfd)
    except OSError:
        return False
    return True


def _send(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, SIGNAL, None, TO_MAIN_THREAD)
    except OSError as e:
        if e.errno != errno.EINVAL:
            raise
        signal.pidfd_send_signal(pidfd, SIGNAL)  # a thread that begins may take it


def _most_written(pid: int) -> float:
    """Give how large a file of this process may be, in bytes."""
    try:
        most = resource.prlimit(pid, resource.RLIMIT_FSIZE)[0]
    except (OSError, ValueError):
        return math.inf
    return math.inf if most == resource.RLIM_INFINITY else most


def _memory_file(pid: int) -> int:
    """Open the memory file of a rank, -1 if it has none any more, or it cannot be had."""
    name, place = f"/memfd:{name_of(pid)} (deleted)", f"/proc/{pid}/fd"
    try:
        fds = sorted(map(int, os.listdir(place)), key=lambda fd: (fd < FIRST_FD, fd))
        for fd in fds:  # it is the first one, as a rule
            if os.readlink(f"{place}/{fd}") == name:
                return _opened(f"{place}/{fd}", name)
    except OSError:
        pass  # it is gone, or another user's, or no descriptor is left
    return -1


def _opened(path: str, name: str) -> int:
    """Open a file that must have this name; -1 if its number has become another file's."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if os.readlink(f"/proc/self/fd/{fd}") == name:
        return fd
    os.close(fd)
    return -1


def _is_whole(asked: _Asked) -> bool:
    """Read what a rank has written; gives whether that is all."""
    text, now = _read(asked.fd), time.monotonic()
    if text != asked.taken.text:
        asked.taken.text, asked.grown_at = text, now
        last = text[text.rfind(b"\n", 0, -1) + 1 :] if text.endswith(b"\n") else b""
        return last.partition(b", line ")[0].decode(errors="replace").endswith(ENDS)
    return text.endswith(b"\n") and now - asked.grown_at >= UNCHANGED


def _read(fd: int) -> bytes:
    """Read a memory file that was emptied: its writer goes on behind a hole."""
    try:
        size = os.fstat(fd).st_size
        start = os.lseek(fd, 0, os.SEEK_DATA) if size else 0
        return os.pread(fd, MOST, max(start, size - MOST)).lstrip(b"\0")
    except OSError:
        return b""
