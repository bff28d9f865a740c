"""Asks ranks for their stacks, all at a time, and waits for none of them.

Theory of operation. See `worker.stackfile` for how a rank answers. Before it is asked, it is looked
at: the signal goes only to a rank that has handlers for both (a program that a rank has become has
none; one that has just begun may have one, and would not answer). It does not go to a rank that is
stopped, has the signal blocked, or sleeps until a signal comes (ours would wake it). It is asked
gently, and with the other signal if it has not answered and sleeps from one look to the next, or
has had the CPU for some time: on a busy machine it waits for that. Timers of the loop look at the
memory file repeatedly: the kernel does not notify anybody of its growth, and the whole takes a few
milliseconds. A dump is complete when the outermost frame of the main thread is there; if that frame
is not known, when the dump has not grown although its writer has had the CPU for some time, or
sleeps.

What another process has written is not trusted: who reads it expects any bytes.
"""

from __future__ import annotations

import os
import time

from procession.system import plain as signal
from procession.system.files import read
from procession.system.processes import (
    ENDED,
    STOPPED,
    describe,
    pidfd_of,
    state_of,
    wait_channel,
    waits_for_signal,
)
from procession.values.base import Record
from procession.worker.stackfile import BY_PYTHON, FIRST_FD, GENTLE, SIGNAL, name_of

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from procession.system.eventloop import EventLoop

    Wanted = Callable[[], list[tuple[int, int]]]  # rank and pid of each, when its turn comes
    Done = Callable[[list["Taken"]], None]
else:
    from _collections import deque  # `collections` around it takes 1 ms to import

MOST = 60_000  # bytes of one rank's dump
ANSWERED = BY_PYTHON.encode()
SHORTEST, LONGEST = 0.001, 0.02  # seconds between two looks of the loop, which counts in ms
TO_MAIN_THREAD = 1  # PIDFD_SIGNAL_THREAD, since Linux 6.9: to the thread whose number the pid is
# Nanoseconds on the CPU after which one that has not answered is in native code, or after which a
# dump whose end is not known is whole; the kernel may count them one tick of its clock too late.
NATIVE, UNCHANGED = 10_000_000, 4_000_000
RESTLESS = 0.005  # seconds between two looks: who still has not answered is in native code
# The outermost frame of a rank: of `entry.py`, or of the launcher that it was forked from.
ENDS = ('/procession/agent/entry.py"', '"<string>"', '"<frozen runpy>"')


class Taken(Record):
    """What was seen of one process.

    letter: of its state, as `ps` shows it, before it was asked; in the end where it gave no dump.
    state: what it does then, as the verb of a sentence; "" where it gave one. text: its dump. ran:
    whether it has run Python code since it was asked the time before, or does now.
    """

    rank: int
    pid: int
    letter: str = ""
    state: str = ""
    text: bytes = b""
    ran: bool = False


class _AskedRank(Record):
    """One that was asked. gently: with the first signal.

    used, turns: see `_ran`; at the first look, and at the last one. still: so many looks have found
    that it had not run since the one before. grown: `used` when its dump was seen to grow no more,
    None before that.
    """

    taken: Taken
    pidfd: int
    fd: int
    gently: bool = True
    used: int = 0
    turns: int = -1
    still: int = 0
    grown: int | None = None

    def close(self) -> None:
        """Close its descriptors."""
        os.close(self.pidfd)
        os.close(self.fd)


class StackTaker:
    """Takes stacks, one time after the other. lives: whether a rank is still there."""

    def __init__(self, loop: EventLoop, lives: Callable[[int], bool]) -> None:
        self._loop = loop
        self._lives = lives
        self._queue: deque[tuple[Wanted, float, Done]] = deque()
        self._done: Done | None = None  # of those that are being taken
        self._all: list[Taken] = []
        self._open: list[_AskedRank] = []
        self._ends = 0.0
        self._pause = SHORTEST

    def take_stacks(
        self, wanted: Wanted, seconds: float, done: Done, *, at_once: bool = False
    ) -> None:
        """Take stacks, within so many seconds from when their turn comes.

        done: called once with what was seen, in the order of `wanted`: here, or by the loop.
        at_once: what is being taken now ends now.
        """
        if at_once:
            self._queue.appendleft((wanted, seconds, done))
            self.finish()
        else:
            self._queue.append((wanted, seconds, done))
        self._next()

    def _next(self) -> None:
        if self._done is not None or not self._queue:
            return
        wanted, seconds, self._done = self._queue.popleft()
        self._ends = time.monotonic() + seconds
        self._pause, self._all = SHORTEST, []
        ready: list[_AskedRank] = []
        for rank, pid in wanted():
            taken = Taken(rank, pid)
            self._all.append(taken)
            pidfd = pidfd_of(pid)
            fd = _look_at(taken, pidfd)
            if fd >= 0:
                ready.append(_AskedRank(taken, pidfd, fd))
            elif pidfd >= 0:
                os.close(pidfd)
        for asked in ready:  # all in one go, for a picture of one moment
            if _ask(asked):
                self._open.append(asked)
            else:
                asked.close()
        self._wait()

    def _wait(self) -> None:
        left = self._ends - time.monotonic()
        if not self._open or left <= 0:
            self.finish()
            return
        self._loop.after(self, min(self._pause, left), self._look_at_asked)
        self._pause = min(self._pause * 1.3, LONGEST)

    def _look_at_asked(self) -> None:
        still: list[_AskedRank] = []
        for asked in self._open:
            if _is_whole(asked) or not self._lives(asked.taken.rank):
                asked.close()
                continue
            if asked.gently and not asked.taken.text and _stands_still(asked, self._pause):
                asked.gently = False
                _send(asked, SIGNAL)  # at once: it may go on
            still.append(asked)
        self._open = still
        self._wait()

    def finish(self) -> None:
        """Give what there is now of those that are being taken."""
        done, self._done = self._done, None
        if done is None:
            return
        self._loop.cancel(self)
        for asked in self._open:
            _is_whole(asked)
        self.close()
        for taken in self._all:
            if not taken.text and not taken.state:
                state = state_of(taken.pid)  # which the signal may have changed
                taken.letter = state.letter if state is not None else ""
                taken.state = describe(taken.pid)
            taken.ran = taken.ran or ANSWERED in taken.text
        done(self._all)
        self._next()

    def close(self) -> None:
        """Close the files of what is being taken."""
        for asked in self._open:
            asked.close()
        self._open = []


def _look_at(taken: Taken, pidfd: int) -> int:
    """Look whether a process may get the signal; gives its memory file then, else -1."""
    state = state_of(taken.pid)
    if state is None or state.letter in ENDED:
        taken.state = "is gone"
        return -1
    taken.letter = state.letter
    if state.letter in STOPPED:
        taken.state = describe(taken.pid)
        return -1
    if pidfd < 0 or not (state.catches(GENTLE) and state.catches(SIGNAL)):
        return -1
    if state.blocked >> (SIGNAL - 1) & 1:  # another thread would get it, and show its own stack
        taken.state = "has its signals blocked"
        return -1
    return _memory_file(taken.pid)


def _ran(pid: int) -> tuple[bool, int, int]:
    """Give what the main thread of a process has done, in its own CPU time or, else, in ours.

    That is whether it runs now, or waits for a CPU; for how many nanoseconds it has run; and how
    often it got a CPU.
    """
    state, counted = state_of(pid), read(f"/proc/{pid}/task/{pid}/schedstat")
    used, _, turns = map(int, (counted or f"{time.monotonic_ns()} 0 0").split())
    return state is not None and state.letter == "R", used, turns


def _stands_still(asked: _AskedRank, pause: float) -> bool:
    """Tell whether one that does not answer is in native code, so that its frames stand still."""
    runs, used, turns = _ran(asked.taken.pid)
    asked.still = asked.still + 1 if turns == asked.turns else 0
    asked.turns, asked.used = turns, asked.used or used
    return used >= asked.used + NATIVE if runs else asked.still > 1 or pause > RESTLESS


def _ask(asked: _AskedRank) -> bool:
    """Ask a process, unless it sleeps until a signal comes; gives whether it was asked."""
    asked.taken.ran = ANSWERED in _read(asked.fd)  # it answered late
    try:
        os.ftruncate(asked.fd, 0)
    except OSError:
        return False
    if waits_for_signal(wait_channel(asked.taken.pid)):
        asked.taken.state = describe(asked.taken.pid)
        return False
    return _send(asked, GENTLE)


def _send(asked: _AskedRank, number: int) -> bool:
    for to in (TO_MAIN_THREAD, 0):  # an older Linux may give it to a thread that begins
        try:
            signal.pidfd_send_signal(asked.pidfd, number, None, to)
        except OSError:
            continue
        return True
    return False  # it is gone


def _memory_file(pid: int) -> int:
    """Open the memory file of a rank, -1 if it has none any more, or it cannot be had."""
    name, place = f"/memfd:{name_of(pid)} (deleted)", f"/proc/{pid}/fd"
    try:
        fds = sorted(map(int, os.listdir(place)), key=lambda fd: (fd < FIRST_FD, fd))
        for fd in fds:  # it is the first one, as a rule
            if os.readlink(f"{place}/{fd}") == name:
                flags = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
                opened = os.open(f"{place}/{fd}", flags)
                if os.readlink(f"/proc/self/fd/{opened}") == name:
                    return opened
                os.close(opened)  # its number has become another file's
    except OSError:
        pass  # it is gone, or another user's, or no descriptor is left
    return -1


def _is_whole(asked: _AskedRank) -> bool:
    """Read what a rank has written; gives whether that is all."""
    text = _read(asked.fd)
    if text != asked.taken.text:
        asked.taken.text, asked.grown = text, None
        last = text[text.rfind(b"\n", 0, -1) + 1 :] if text.endswith(b"\n") else b""
        return last.partition(b", line ")[0].decode(errors="replace").endswith(ENDS)
    if not text.endswith(b"\n"):
        return False
    runs, used, _ = _ran(asked.taken.pid)
    asked.grown = used if asked.grown is None else asked.grown
    return not runs or used >= asked.grown + UNCHANGED


def _read(fd: int) -> bytes:
    """Read a memory file that was emptied: its writer goes on behind a hole."""
    try:
        size = os.fstat(fd).st_size
        start = os.lseek(fd, 0, os.SEEK_DATA) if size else 0
        return os.pread(fd, MOST, max(start, size - MOST)).lstrip(b"\0")
    except OSError:
        return b""
