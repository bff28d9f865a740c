"""The forkserver: parent, subreaper and reaper of the ranks of one group at a time.

Theory of operation. A small single-threaded process that the launcher starts by exec (or, for the
start method `fork`, by forking itself). It does what it is told over its socket: fork ranks, signal
them, sweep up what they leave; and it tells what the kernel tells it: exits. It has no policy and
no clock of its own. As a child subreaper it is the parent of everything that its ranks orphan, so
that "nothing is left" has an exact meaning: waitpid says ECHILD.

It waits in one epoll for its socket, for SIGCHLD (through the signal module's wake-up descriptor),
for the status pipes of ranks on their way to their program, and for the launcher's own pidfd. When
the socket or the launcher is gone, it kills everything below it until ECHILD, and goes.

While ranks are to be forked (`forking`), each turn of the loop forks one, and waits for nothing:
signals, exits and a change of mind are heard between two forks. What is to be told is sent in
blocks then, a moment later at the most; before every wait it is sent at once.

Before each round of signals everything that is dead is reaped and reported, so that a rank that
died by itself is never taken for one that was signalled.

A forked rank must finish like any interpreter (atexit, threads, buffers), so the child does not run
inside this loop: `serve` returns the job in the child, and the caller's frames are the only ones
below the user's program.

Rejected: pidfds for the children (orphans come unannounced, and SIGCHLD is needed for them anyway);
walking the process tree before killing it (not atomic: processes were lost); a thread that waits
(a fork in a process with threads is not sound).
"""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import os
import select
import signal
import sys
import time

from procession.forkserver import protocol
from procession.forkserver.forking import Forking, close_all
from procession.system import tree
from procession.system.prctl import become_subreaper

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from procession.forkserver.preload import Preloaded

    Job = dict[str, Any]

# Signals that would end the forkserver before its launcher: it goes when the launcher goes.
ENDURED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
           signal.SIGUSR2, signal.SIGALRM)  # fmt: skip
TELL_WITHIN_NS = 2_000_000  # while ranks are being forked
REST_SECONDS = 300.0
# What ranks need; see `bootstrap.warm_up`.
NEEDED = ("procession.worker.setup", "procession.worker.bootstrap", "importlib.machinery",
          "faulthandler", "json", "pickle", "traceback",
          "procession.worker.description")  # fmt: skip


class Server:
    """The loop. Made in the forkserver only."""

    def __init__(self, sock: socket.socket, launcher: int) -> None:
        self._sock = sock
        self._receiver = protocol.Receiver(sock)
        self._launcher = launcher
        self._pid = os.getpid()
        self._pids: dict[int, int] = {}  # rank -> pid, until it is reaped
        self._ranks: dict[int, int] = {}  # pid -> rank, until it is reaped
        self._common: Job = {}
        self._sweep = 0  # the signal of a sweep in progress
        self._sweep_of = 0  # its number
        self._swept: set[int] = set()  # pids that got it
        self._groups: set[int] = set()  # process groups that got the stop signal as ranks
        self._tidied: set[int] = set()  # sessions of ranks that start again: they are to be empty
        self._patience: float | None = REST_SECONDS  # until it is told something
        self._preloaded: Preloaded | None = None
        self._told: list[protocol.Message] = []  # that are still to be sent
        self._told_fds: list[int] = []
        self._tell_by = 0  # when the first of them is due
        self._releasing = False

    # -- life

    def serve(self, mask: set[signal.Signals] | set[int] | None = None) -> Job | None:
        """Work until the launcher is gone: None then; in a forked rank its job.

        mask: the signals that ranks shall have blocked, those of this thread if None.
        """
        if mask is None:
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        handlers = {n: signal.getsignal(n) for n in (*ENDURED, signal.SIGCHLD)}
        for number in handlers:
            signal.signal(number, _wake_up)
        signal.pthread_sigmask(signal.SIG_SETMASK, set(mask) - {signal.SIGCHLD})
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wake = wake
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._epoll = select.epoll()
        self._epoll.register(self._sock.fileno(), select.EPOLLIN)
        self._epoll.register(self._woken, select.EPOLLIN)
        self._forking = Forking(self._epoll, mask, handlers, self._leave)
        become_subreaper()
        try:
            try:
                self._alive = os.pidfd_open(self._launcher)
            except ProcessLookupError:  # gone already
                return self._hear_the_last()
            self._epoll.register(self._alive, select.EPOLLIN)
            if os.getppid() != self._launcher:
                return self._hear_the_last()
            return self._loop()
        except BaseException as e:
            if os.getpid() != self._pid:
                raise
            self._tell("crashed", f"{type(e).__name__}: {e}")
            self._send()
            raise
        finally:
            if os.getpid() == self._pid:
                self._end_everything()

    def _loop(self) -> Job | None:
        forking = self._forking
        while True:
            busy = forking.due
            if not busy or (self._told and time.monotonic_ns() >= self._tell_by):
                self._send()
            ready = self._epoll.poll(0 if busy else self._patience)
            if not ready and not busy and self._patience is not None:
                return None
            fds = {fd for fd, _ in ready}
            if self._alive in fds:
                return self._hear_the_last()
            for fd in fds & forking.status.keys():
                self._read_status(fd)
            if self._woken in fds:
                self._clear_wakeups()
                self._reap()
            if self._sock.fileno() in fds:
                for message, received in self._receiver.receive():
                    self._obey(message, received)
                if self._receiver.ended:
                    return None
            if forking.due:
                job = self._fork()
                if job is not None:
                    return job
            if self._releasing and not forking.due:
                self._release()

    def _hear_the_last(self) -> None:
        """Read what the launcher said before it went, for the scratch directory that it names."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        while not self._receiver.ended and poll.poll(0):
            for message, fds in self._receiver.receive():
                close_all(fds)
                if message[0] == "begin":
                    self._common = message[1]

    def _clear_wakeups(self) -> None:
        try:
            while len(os.read(self._woken, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def _end_everything(self) -> None:
        """Kill and reap until nothing is left below; then remove the run's scratch directory."""
        self._sweep = 0
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline:
            tree.signal_children(signal.SIGKILL, set(), set())
            try:
                while os.wait4(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                break
            # SIGCHLD wakes this; the time-out is for a child whose signal was taken just before.
            poll = select.poll()
            poll.register(self._woken, select.POLLIN)
            poll.poll(20)
            self._clear_wakeups()
        scratch = self._common.get("scratch")
        if scratch:
            import shutil

            shutil.rmtree(scratch, ignore_errors=True)

    # -- the launcher's wishes

    def _obey(self, message: protocol.Message, fds: list[int]) -> None:
        kind = message[0]
        if kind == "begin":
            self._patience = None
            self._common = message[1]
            self._groups = set()
        elif kind == "preload":
            from procession.forkserver.preload import Preloaded

            self._preloaded = self._preloaded or Preloaded()
            self._preloaded.add(**message[1])
            self._tell("preloaded", self._preloaded.fault, self._preloaded.failed)
        elif kind == "spawn":
            self._forking.ask(message[1], fds)
        elif kind == "cancel":
            self._tell("cancelled", self._forking.cancel(), time.monotonic_ns())
        elif kind == "signal":
            self._signal(message[1], message[2])
        elif kind == "sweep":
            if self._sweep:  # once more, in a hurry: for all
                self._groups = set()
            self._sweep, self._sweep_of, self._swept = message[1], message[2], set[int]()
            self._reap()
        elif kind == "tidy":
            self._tidied.add(message[1])
            self._reap()
        elif kind == "release":
            self._releasing = True
        elif kind == "rest":
            self._patience = message[1]
            self._common = {}

    def _fork(self) -> Job | None:
        """Fork the rank that is next, and tell what came of it; gives the job in the rank."""
        came = self._forking.fork(self._common, self._preloaded)
        if isinstance(came, dict):
            return came
        for message in came:
            if message[0] == "spawned":
                _, rank, pid, _, pidfd = message
                self._pids[rank], self._ranks[pid] = pid, rank
                if pidfd >= 0:
                    self._told_fds.append(pidfd)
            self._tell(*message)
        return None

    def _release(self) -> None:
        """Let go of the descriptors that a fork has of its launcher, and keep their numbers.

        Objects of the launcher would close them, when they are collected, whosever they are then.
        """
        self._releasing = False
        self._send()
        own = {self._sock.fileno(), self._epoll.fileno(), self._woken, self._wake, self._alive}
        for name in os.listdir("/proc/self/fd"):
            fd = int(name)
            if fd > 2 and fd not in own and fd not in self._forking.status:
                try:
                    os.fstat(fd)
                    os.dup2(0, fd, inheritable=False)
                except OSError:
                    pass  # the listing's own

    def _signal(self, number: int, ranks: list[int]) -> None:
        self._reap()
        at = time.monotonic_ns()
        reached: list[int] = []
        for rank in ranks:
            pid = self._pids.get(rank)
            if pid is None:
                continue
            try:
                try:
                    os.killpg(pid, number)
                except ProcessLookupError:  # it has not made its session yet
                    os.kill(pid, number)
                if number != signal.SIGKILL:
                    self._groups.add(pid)
                    os.killpg(pid, signal.SIGCONT)  # a stopped rank could not obey
            except OSError:
                pass
            reached.append(rank)
        if reached:
            self._tell("signalled", number, reached, at)
            self._send()  # before a rank has something to say to it

    def _reap(self) -> None:
        """Take every exit that there is, tell those of ranks, and go on with a sweep."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self._tidied.clear()
                if self._sweep:
                    self._sweep = 0
                    self._tell("swept", self._sweep_of)
                return
            if not pid:
                break
            at = time.monotonic_ns()
            rank = self._ranks.pop(pid, None)
            if rank is None:
                continue
            for fd in self._forking.status_of(rank):
                self._read_status(fd)
            del self._pids[rank]
            fault = self._forking.fault_of(rank)
            if fault is not None:
                self._tell("failed", rank, *fault, at)
            else:
                seconds = usage.ru_utime + usage.ru_stime
                self._tell("exited", rank, status, seconds, usage.ru_maxrss * 1024, at)
        if self._tidied:
            self._tidied = tree.kill_sessions(self._tidied)
        if self._sweep == signal.SIGKILL:
            tree.signal_children(self._sweep, set(), set())
        elif self._sweep:
            # Who got the signal with its rank must not take it for a second, impatient one.
            tree.signal_children(self._sweep, self._swept, self._groups)

    def _read_status(self, fd: int) -> None:
        rank = self._forking.read_status(fd)
        if rank is not None:
            self._tell("ready", rank, time.monotonic_ns())

    def _tell(self, *message: Any) -> None:
        if not self._told:
            self._tell_by = time.monotonic_ns() + TELL_WITHIN_NS
        self._told.append(message)

    def _send(self) -> None:
        """Send what is to be told."""
        if not self._told:
            return
        told, fds = self._told, self._told_fds
        self._told, self._told_fds = [], []
        try:
            protocol.send(self._sock, ("told", told), fds)
        except OSError:
            pass  # the launcher is gone: the loop sees it next
        close_all(fds)

    def _leave(self) -> None:
        """Give up the forkserver's own descriptors, in a rank that does not exec."""
        self._receiver.close()
        self._sock.close()
        self._epoll.close()
        for fd in (self._woken, self._wake, self._alive, *self._told_fds):
            os.close(fd)


def _wake_up(_number: int, _frame: object) -> None:
    """Do nothing: the signal module has written to the wake-up descriptor."""


def main(sock_fd: int, launcher: int) -> None:
    """Be the forkserver; in its ranks, be the rank."""
    sys.path[:] = [p for p in sys.path if p]  # `python -c` puts the current directory first
    close_all([fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > sock_fd])
    os.set_inheritable(sock_fd, False)
    os.chdir("/")
    os.dup2(0, 2)  # up to here, a failure to start could be read on the launcher's stderr
    sock = socket.socket(fileno=sock_fd)
    _import_ahead(sock)
    job = Server(sock, launcher).serve()
    sock.close()
    if job is not None:
        from procession.worker.bootstrap import run_in_fork

        run_in_fork(job)
    else:
        os._exit(0)  # there is nothing to be ended in an orderly way, and it would take its time


def _import_ahead(sock: socket.socket) -> None:
    """Import what ranks need while there is nothing else to do."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    for name in NEEDED:
        if poll.poll(0):
            return
        __import__(name)


def main_forked(
    sock: socket.socket, launcher: int, live: Any, mask: set[signal.Signals] | set[int]
) -> NoReturn:
    """Be the forkserver in a process that was forked from the launcher, and its ranks."""
    from procession.worker import program, streams

    status = 1
    try:
        os.setsid()
        program.live = live
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
        job = Server(sock, launcher).serve(mask)
        if job is not None:
            from procession.worker.bootstrap import run_forked

            streams.replace()
            run_forked(job)
        status = 0
    finally:
        os._exit(status)
