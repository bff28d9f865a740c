"""The agent: parent, subreaper and reaper of the ranks of one group at a time; it runs the rules.

Theory of operation. A small single-threaded process that the launcher starts by exec (or, for the
start method `fork`, by forking itself). Over its socket it gets a group's rules, its ranks, and
wishes; what happens to the ranks, and what follows, is the matter of `run`. As a child subreaper it
is the parent of everything that its ranks orphan, so that "nothing is left" has an exact meaning:
waitpid says ECHILD.

It waits in one epoll for its socket, for SIGCHLD (through the signal module's wake-up descriptor),
for the outcome channels of ranks, for the status pipes of those on their way to their program, and
for the launcher's own pidfd. When the socket or the launcher is gone, it kills everything below it
until ECHILD, and goes. It never waits for the launcher: what the socket does not take is kept.

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
import errno
import gc
import os
import time

from procession.agent import protocol
from procession.agent.children import kill_all, reap_all
from procession.agent.forking import Forking, remove_traces, why
from procession.agent.owner import Owner
from procession.agent.protocol import close_all, is_readable
from procession.agent.quiet import Quiet
from procession.agent.run import WISHES, GroupRun
from procession.system import plain as signal
from procession.system.eventloop import EventLoop
from procession.system.files import descriptors
from procession.system.prctl import become_subreaper, hear_of_parents_end
from procession.system.processes import wake_no_more

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from procession.agent.preload import Preloaded
    from procession.agent.template import Template

    Job = dict[str, Any]

# Signals that would end the agent before its launcher: it goes when the launcher goes.
ENDURED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
           signal.SIGUSR2, signal.SIGALRM)  # fmt: skip
MOST_FILES = 16  # in a frame: who takes it has these open at once
SEND_WITHIN_NS = 2_000_000  # while ranks are being forked
IDLE_SECONDS = 300.0


class Server:
    """The loop. Made in the agent only."""

    def __init__(self, sock: socket.socket, launcher: int, quiet: Quiet) -> None:
        """launcher: its pid; it has started this process."""
        self._talk_on(sock)
        self._heard: list[tuple[protocol.Message, list[int]]] = []  # and not carried out yet
        self._owner = Owner(launcher)
        self._pid = os.getpid()
        self._common: Job = {}
        self._patience: float | None = IDLE_SECONDS  # until something comes
        self._preloaded: Preloaded | None = None  # what this process has imported
        self._template: Template | None = None  # as which this process is to go on
        self._uses = 0  # how many runs it has served before that
        self._run: GroupRun | None = None
        self._outgoing: list[protocol.Message] = []  # that are still to be sent
        self._outgoing_fds: list[int] = []
        self._send_by = 0  # when the first of them is due
        self._goes = False
        self._releasing = False
        self._before = set[int]()  # descriptors, when the group began
        self._quiet = quiet

    def _talk_on(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._receiver = protocol.Receiver(sock)
        self._sender = protocol.Sender(sock)

    # -- life

    def serve(self, mask: Iterable[int] | None = None) -> Job | None:
        """Work until the launcher is gone: None then; in a forked rank its job.

        mask: the signals that ranks shall have blocked, those of this thread if None.
        """
        if mask is None:
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        taken = [*ENDURED, signal.SIGCHLD]
        if self._owner.pidfd < 0:  # then the parent-death signal shows that the launcher is gone
            taken.append(signal.SIGCONT)
        before = {n: signal.getsignal(n) for n in signal.valid_signals()}
        # In a fork of the launcher, none of its handlers is to run.
        handlers = {n: each for n, each in before.items() if n in taken or callable(each)}
        for number in handlers:
            signal.signal(number, _wake_up)
        signal.pthread_sigmask(signal.SIG_SETMASK, set(mask) - {signal.SIGCHLD})
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        loop = self._loop = EventLoop(timed=True)
        loop.watch(self.sock.fileno(), self._hear_launcher)
        loop.watch(self._woken, self._take_signals)
        self._forking = Forking(loop, mask, handlers, self._leave)
        try:
            become_subreaper()
            # One that is stopped when its launcher is killed is to notice that.
            hear_of_parents_end(signal.SIGCONT)
            wake_no_more(self.sock.fileno())  # as its launcher has set it, until now
            if self._owner.pidfd >= 0:
                loop.watch(self._owner.pidfd, self._hear_the_last)
            if self._owner.gone:
                self._hear_the_last()
            return self._work()
        except BaseException as e:
            if os.getpid() != self._pid:
                raise
            self._report("crashed", why(e)[1])
            self._send()
            return None
        finally:
            if os.getpid() == self._pid:
                self._end_everything()

    def _work(self) -> Job | None:
        forking = self._forking
        while not self._goes:
            busy = forking.due
            if not busy or (self._outgoing and time.monotonic_ns() >= self._send_by):
                self._send()
            if self._run is not None:
                self._run.outcomes.next_turn(self._sender.size, self._sender.files)
            happened = self._loop.turn(0.0 if busy else self._patience)
            if not happened and not busy and self._patience is not None:
                return None
            if self._template is not None:
                self._wait_for_another(self._template)
            if forking.due and not self._goes:
                job = self._fork()
                if job is not None:
                    return job
            if self._releasing and not (forking.due or self._loop.holds):
                self._release()
        return None

    def _take_signals(self) -> None:
        self._clear_wakeups()
        if self._run is not None:
            self._run.reap()
        else:
            reap_all()  # what imports have left
        if self._owner.pidfd < 0 and self._owner.gone:
            self._hear_the_last()

    def _hear_launcher(self) -> None:
        if self._sender.waiting:
            self._flush()
        self._heard += self._receiver.receive()
        while self._heard:
            self._obey(*self._heard.pop(0))
        if self._receiver.ended:
            self._goes = True

    def _hear_the_last(self) -> None:
        """Read what the launcher sent before it went, and go; it may name the scratch directory."""
        while not self._receiver.ended and is_readable(self.sock.fileno()):
            self._heard += self._receiver.receive()
        heard, self._heard = self._heard, []
        for message, fds in heard:
            close_all(fds)
            if message[0] == "begin":
                self._common = message[1]
        self._goes = True

    def _clear_wakeups(self) -> None:
        try:
            os.read(self._woken, 4096)
        except BlockingIOError:
            pass

    def _end_everything(self) -> None:
        """Kill and reap until nothing is left below; then remove the run's scratch directory."""
        self._end_run()  # its descriptors may be all there are, and a look at /proc needs one
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline and not kill_all():
            # SIGCHLD wakes this; the time-out is for a child whose signal was taken just before.
            is_readable(self._woken, 20)
            self._clear_wakeups()
        remove_traces(self._common)

    # -- the launcher's wishes

    def _obey(self, message: protocol.Message, fds: list[int]) -> None:
        kind = message[0]
        words: Any = message[1:]
        if kind == "rules":
            self._begin_group(words[0], fds[0])
        elif kind == "begin":
            (self._common,) = words
            self._forking.begin_attempt()
        elif kind == "preload":
            self._preload(*words)
        elif kind == "ping":
            self._report("pong", *words)
        elif kind == "release":
            self._releasing = True
        elif kind == "idle":
            self._be_idle(*words)
        elif kind == "share":
            from procession.worker import program

            self._do_at_length(lambda: program.live[0].share(words[0], self._tell))
        elif kind == "keep":
            self._keep(words[0], fds[0])
        elif self._run is None:
            close_all(fds)
        elif kind == "spawn":
            self._run.spawn(words[0], fds)
        else:
            WISHES[kind](self._run, *words)

    def _begin_group(self, rules: dict[str, Any], board: int) -> None:
        """Begin with a group. Raises OSError if there was no room for its board."""
        if board < 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if self._patience is not None and rules["warm"]:
            self._before = descriptors() - {board}
        self._patience = None
        self._end_run()
        self._run = GroupRun(rules, board, self._loop, self._forking, self._report)

    def _end_run(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None

    def _be_idle(self, seconds: float | None) -> None:
        """Take note that the group is over. seconds: for which to wait for another one."""
        self._patience, self._common = seconds, {}
        self._end_run()
        self._forking.end()
        gc.collect(0)  # what is left of it refers to itself

    def _keep(self, terms: dict[str, Any], directory: int) -> None:
        """Become a template, if nothing is left of the run. directory: for its socket."""
        from procession.agent import template

        self._be_idle(IDLE_SECONDS)
        self._forking.forget()
        fault = template.obstacle(self._preloaded, (self._before or descriptors()) | {directory})
        if not fault:
            assert self._preloaded is not None
            try:
                self._uses += 1
                self._template = template.Template(terms, self._uses, directory, self._preloaded)
            except OSError as e:
                fault = e.strerror or str(e)
        if fault:
            close_all([directory])
        self._report("kept", fault)

    def _wait_for_another(self, template: Template) -> None:
        """Wait for a launcher that this process can work for; go if none comes in time."""
        self._send()
        self._template = None
        self._loop.forget(self.sock.fileno())
        self._owner.leave(self._loop)
        self._receiver.close()
        self.sock.close()
        taken = template.wait()
        if taken is None:
            self._goes = True
            return
        sock, pid = taken
        self._talk_on(sock)
        self._owner.change_to(pid, sock)
        self._loop.watch(sock.fileno(), self._hear_launcher)
        self._loop.watch(self._owner.pidfd, self._hear_the_last)
        self._report("taken", 0, "")

    def _preload(self, words: dict[str, Any]) -> None:
        """Import what ranks will."""
        from procession.agent.preload import Preloaded
        from procession.agent.wanted import Preload

        preloaded = self._preloaded = self._preloaded or Preloaded()
        self._do_at_length(lambda: preloaded.add(Preload(**words)))
        self._tell("preloaded", preloaded.fault, preloaded.failed, preloaded.culprit)

    def _do_at_length(self, call: Callable[[], None]) -> None:
        """Call what may take for ever; the loop does not notice meanwhile who is gone."""
        before = signal.signal(signal.SIGCONT, self._go_with_launcher)
        self._quiet.end()
        try:
            self._go_with_launcher()
            call()
        finally:
            self._quiet.switch_off()
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
        """Fork the next rank; gives the job in the rank."""
        if "shared" in self._common:
            self._share()
        assert self._run is not None
        return self._forking.fork(self._common, self._preloaded, self._run)

    def _share(self) -> None:
        """Run the shared set-up of the ranks, where that is still to be done."""
        from procession.agent import preload, sharing

        job, fds = self._forking.next
        if sharing.is_due(self._common, job, self._preloaded):
            preloaded = self._preloaded = self._preloaded or preload.Preloaded()
            self._tell("sharing", self._common["shared"]["name"])
            self._do_at_length(lambda: sharing.share(preloaded, self._common, job, fds))
            self._tell("shared", preloaded.fault)

    def _release(self) -> None:
        """Let go of the descriptors that a fork has of its launcher, and keep their numbers.

        Objects of the launcher close these numbers when they are collected, whatever has them then.
        """
        self._releasing = False
        self._send()
        for fd in descriptors() - self._own - {*self._forking.own}:
            try:
                if fd > 2:
                    os.dup2(0, fd, inheritable=False)
            except OSError:
                close_all([fd])  # its number is above the limit, which is lower by now

    @property
    def _own(self) -> set[int]:
        """The agent's own descriptors, beside the status pipes of ranks."""
        run = self._run.own if self._run is not None else []
        ours = self.sock.fileno(), self._woken, self._wake, self._owner.pidfd
        return {*ours, *self._loop.own, *run, *self._outgoing_fds}

    def _report(self, *message: Any, fds: tuple[int, ...] = ()) -> None:
        if not self._outgoing:
            self._send_by = time.monotonic_ns() + SEND_WITHIN_NS
        self._outgoing.append(message)
        self._outgoing_fds += fds
        if len(self._outgoing_fds) >= MOST_FILES:
            self._send()

    def _tell(self, *message: Any) -> None:
        """Report what may be the last thing to be heard for long."""
        self._report(*message)
        self._send()

    def _send(self) -> None:
        """Send the messages that wait."""
        if self._outgoing:
            messages, fds = self._outgoing, self._outgoing_fds
            self._outgoing, self._outgoing_fds = [], []
            self._sender.send(("reports", messages), fds, fds)
            self._flush()

    def _flush(self) -> None:
        self._sender.flush()
        self._loop.want_write(self.sock.fileno(), self._sender.waiting)

    def _leave(self) -> None:
        """Give up what is the agent's own, in a rank that does not exec."""
        self._quiet.end()
        if self._run is not None:
            self._run.outcomes.leave()
        own = self._own
        self._receiver.close()
        self._sender.drop()
        self.sock.detach()
        self._loop.leave()
        close_all(sorted(own))


def tell_crash(sock: socket.socket, e: Exception) -> None:
    """Report to the launcher that an agent failed before it could work."""
    protocol.Sender(sock).send(("reports", [("crashed", why(e)[1])]), [], [])


def _wake_up(_number: int, _frame: object) -> None:
    """Do nothing: the signal module has written to the wake-up descriptor."""
