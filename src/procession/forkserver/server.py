"""The forkserver: parent, subreaper and reaper of the ranks of one group at a time.

Theory of operation. A small single-threaded process that the launcher starts by exec (or, for the
start method `fork`, by forking itself). Over its socket it gets commands: fork ranks, signal them,
end what they leave behind; and it reports what happened, above all exits (`children`). It has no
policy and no clock of its own. As a child subreaper it is the parent of everything that its ranks
orphan, so that "nothing is left" has an exact meaning: waitpid says ECHILD.

It waits in one epoll for its socket, for SIGCHLD (through the signal module's wake-up descriptor),
for the status pipes of ranks on their way to their program, and for the launcher's own pidfd. When
the socket or the launcher is gone, it kills everything below it until ECHILD, and goes.

While ranks are to be forked (`forking`), each turn of the loop forks one, and does not wait:
signals, exits and a cancellation are noticed between two forks. Messages are then collected, and
sent together a moment later (`SEND_WITHIN_NS`); before every wait, all are sent at once.

A forked rank must finish like any interpreter (atexit, threads, buffers), so the child does not run
inside this loop: `serve` returns the job in the child, and the caller's frames are the only ones
below the user's program.

Rejected: a thread that waits (a fork in a process with threads is not sound).
"""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import os
import select
import time

from procession.forkserver import protocol
from procession.forkserver.children import Children, kill_all
from procession.forkserver.forking import Forking, close_all, remove_traces
from procession.forkserver.owner import Owner
from procession.system.files import descriptors
from procession.system.prctl import become_subreaper, wake_with_parent
from procession.system.signals import plain as signal
from procession.system.signals import wake_no_more

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from procession.forkserver.preload import Preloaded

    Job = dict[str, Any]

# Signals that would end the forkserver before its launcher: it goes when the launcher goes.
ENDURED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
           signal.SIGUSR2, signal.SIGALRM)  # fmt: skip
SEND_WITHIN_NS = 2_000_000  # while ranks are being forked
IDLE_SECONDS = 300.0


class Server:
    """The loop. Made in the forkserver only."""

    def __init__(self, sock: socket.socket, launcher: int) -> None:
        """launcher: its pid; it has started this process."""
        self.sock = sock
        self._receiver = protocol.Receiver(sock)
        self._heard: list[tuple[protocol.Message, list[int]]] = []  # and not carried out yet
        self._owner = Owner(launcher)
        self._pid = os.getpid()
        self._common: Job = {}
        self._patience: float | None = IDLE_SECONDS  # until something comes
        self._preloaded: Preloaded | None = None  # what this process has imported
        self._outgoing: list[protocol.Message] = []  # that are still to be sent
        self._outgoing_fds: list[int] = []
        self._send_by = 0  # when the first of them is due
        self._releasing = False
        self._before = set[int]()  # descriptors, when the group began

    # -- life

    def serve(self, mask: Iterable[int] | None = None) -> Job | None:
        """Work until the launcher is gone: None then; in a forked rank its job.

        mask: the signals that ranks shall have blocked, those of this thread if None.
        """
        if mask is None:
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        # Without a pidfd, the parent-death signal shows that the launcher is gone.
        blind = self._owner.pidfd < 0
        noticed_by = (signal.SIGCHLD, signal.SIGCONT) if blind else (signal.SIGCHLD,)
        handlers = {n: signal.getsignal(n) for n in (*ENDURED, *noticed_by)}
        for number in handlers:
            signal.signal(number, _wake_up)
        signal.pthread_sigmask(signal.SIG_SETMASK, set(mask) - {signal.SIGCHLD})
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wake = wake
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._epoll = select.epoll()
        self._epoll.register(self.sock.fileno(), select.EPOLLIN)
        self._epoll.register(self._woken, select.EPOLLIN)
        self._forking = Forking(self._epoll, mask, handlers, self._leave)
        self._children = Children(self._forking, self._report)
        try:
            become_subreaper()
            # One that is stopped when its launcher is killed is to notice that.
            if self._owner.is_parent:
                wake_with_parent()
                wake_no_more(self.sock.fileno())  # as its launcher has set it, until now
            else:
                self._owner.watch(self.sock)
                self._patience = None
            if self._owner.pidfd >= 0:
                self._epoll.register(self._owner.pidfd, select.EPOLLIN)
            if self._owner.gone:
                return self._hear_the_last()
            return self._loop()
        except BaseException as e:
            if os.getpid() != self._pid:
                raise
            self._report("crashed", _said(e))
            self._send()
            raise
        finally:
            if os.getpid() == self._pid:
                self._end_everything()

    def _loop(self) -> Job | None:
        forking = self._forking
        while True:
            busy = forking.due
            if not busy or (self._outgoing and time.monotonic_ns() >= self._send_by):
                self._send()
            ready = self._epoll.poll(0 if busy else self._patience)
            if not ready and not busy and self._patience is not None:
                return None
            fds = {fd for fd, _ in ready}
            if self._owner.pidfd in fds:
                return self._hear_the_last()
            for fd in fds & forking.status.keys():
                self._children.read_status(fd)
            if self._woken in fds:
                self._clear_wakeups()
                self._children.reap()
                if self._owner.pidfd < 0 and self._owner.gone:
                    return self._hear_the_last()
            if self.sock.fileno() in fds:
                self._heard += self._receiver.receive()
                while self._heard:
                    self._obey(*self._heard.pop(0))
                if self._receiver.ended:
                    return None
            if forking.due:
                job = self._fork()
                if job is not None:
                    return job
            if self._releasing and not forking.due:
                self._release()

    def _hear_the_last(self) -> None:
        """Read what the launcher sent before it went: it may name the scratch directory."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        while not self._receiver.ended and poll.poll(0):
            self._heard += self._receiver.receive()
        for message, fds in self._heard:
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
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline and not kill_all():
            # SIGCHLD wakes this; the time-out is for a child whose signal was taken just before.
            poll = select.poll()
            poll.register(self._woken, select.POLLIN)
            poll.poll(20)
            self._clear_wakeups()
        remove_traces(self._common)

    # -- the launcher's wishes

    def _obey(self, message: protocol.Message, fds: list[int]) -> None:
        kind = message[0]
        if kind == "do":
            _, which, by, wish = message
            late = 0 < by < time.monotonic_ns()
            if not late:
                self._obey(wish, fds)
            self._report("late" if late else "done", which)
        elif kind == "begin":
            if self._patience is not None and message[1].get("warm"):
                self._before = descriptors()
            self._patience = None
            self._common = message[1]
            self._forking.begin()
            self._children.begin()
        elif kind == "preload":
            self._preload(message[1])
        elif kind == "spawn":
            self._forking.ask(message[1], fds)
        elif kind == "cancel":
            self._report("cancelled", self._forking.cancel(), time.monotonic_ns())
        elif kind == "signal":
            if self._children.signal_ranks(message[1], message[2]):
                self._send()  # before a rank has something to say to it
        elif kind == "sweep":
            self._children.sweep(message[1], message[2])
        elif kind == "clean":
            self._children.clean(message[1])
        elif kind == "release":
            self._releasing = True
        elif kind == "idle":
            self._patience = message[1]
            self._common = {}
            self._forking.end()
        elif kind in ("keep", "take"):
            self._go_over(kind, message[1], fds)

    def _go_over(self, kind: str, words: dict[str, Any], fds: list[int]) -> None:
        """Work for somebody else from now on: a keeper, or a launcher."""
        from procession.forkserver import kept

        around = self._owner, self.sock, self._epoll
        if kind == "take":
            answer = kept.take(words, fds, *around, self._preloaded)
        else:
            self._forking.forget()
            self._patience, self._common = None, {}
            before = (self._before or descriptors()) | {self._owner.pidfd}
            answer = kept.keep(words, fds, *around, self._preloaded, before)
        if answer[1]:
            close_all(fds)
        self._report(*answer)

    def _preload(self, words: dict[str, Any]) -> None:
        """Import what ranks will."""
        from procession.forkserver.preload import Preloaded

        preloaded = self._preloaded = self._preloaded or Preloaded()
        self._do_at_length(lambda: preloaded.add(**words))
        self._report("preloaded", preloaded.fault, preloaded.failed, preloaded.culprit)

    def _do_at_length(self, call: Callable[[], None]) -> None:
        """Call what may take for ever; the loop does not notice meanwhile who is gone."""
        before = signal.signal(signal.SIGCONT, self._go_with_launcher)
        try:
            self._go_with_launcher()
            call()
        finally:
            signal.signal(signal.SIGCONT, before)

    def _go_with_launcher(self, *_: object) -> None:
        """Go, if the launcher is gone. The parent-death signal calls this during imports."""
        if os.getpid() == self._pid and self._owner.gone:
            try:
                self._hear_the_last()
                self._end_everything()
            finally:
                os._exit(0)

    def _fork(self) -> Job | None:
        """Fork the next rank, and report what came of it; gives the job in the rank."""
        if "shared" in self._common:
            self._share()
        self._children.make_way(self._forking.next[0]["rank"])
        came = self._forking.fork(self._common, self._preloaded)
        if isinstance(came, dict):
            return came
        for message in came:
            if message[0] == "spawned":
                _, rank, pid, at, pidfd = message
                self._children.add(rank, pid, at)
                if pidfd >= 0:
                    self._outgoing_fds.append(pidfd)
                self._report("spawned", rank, pid, at, pidfd)
            else:
                self._report(*message)
        return None

    def _share(self) -> None:
        """Run the shared set-up of the ranks, where that is still to be done."""
        from procession.forkserver import preload, sharing

        job, fds = self._forking.next
        if sharing.is_due(self._common, job, self._preloaded):
            preloaded = self._preloaded = self._preloaded or preload.Preloaded()
            self._report("sharing", self._common["shared"]["name"])
            self._send()
            self._do_at_length(lambda: sharing.share(preloaded, self._common, job, fds))
            self._report("shared", preloaded.fault)

    def _release(self) -> None:
        """Let go of the descriptors that a fork has of its launcher, and keep their numbers.

        Objects of the launcher close these numbers when they are collected, whatever has them then.
        """
        self._releasing = False
        self._send()
        own = {self.sock.fileno(), self._epoll.fileno(), self._woken, self._wake}
        own.add(self._owner.pidfd)
        for fd in descriptors() - own - self._forking.status.keys():
            if fd > 2:
                os.dup2(0, fd, inheritable=False)

    def _report(self, *message: Any) -> None:
        if not self._outgoing:
            self._send_by = time.monotonic_ns() + SEND_WITHIN_NS
        self._outgoing.append(message)

    def _send(self) -> None:
        """Send the messages that wait."""
        if not self._outgoing:
            return
        messages, fds = self._outgoing, self._outgoing_fds
        self._outgoing, self._outgoing_fds = [], []
        try:
            protocol.send(self.sock, ("reports", messages), fds)
        except OSError:
            pass  # the launcher is gone: the loop sees it next
        close_all(fds)

    def _leave(self) -> None:
        """Give up the forkserver's own descriptors, in a rank that does not exec."""
        self._receiver.close()
        self.sock.close()
        self._epoll.close()
        close_all([self._woken, self._wake, self._owner.pidfd, *self._outgoing_fds])


def tell_crash(sock: socket.socket, e: Exception) -> None:
    """Report to the launcher that a forkserver failed before it could work."""
    try:
        protocol.send(sock, ("reports", [("crashed", _said(e))]))
    except OSError:
        pass  # the launcher is gone, too


def _said(e: BaseException) -> str:
    why = e.strerror if isinstance(e, OSError) else None
    return why or f"{type(e).__name__}: {e}"


def _wake_up(_number: int, _frame: object) -> None:
    """Do nothing: the signal module has written to the wake-up descriptor."""
