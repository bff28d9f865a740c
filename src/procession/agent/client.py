"""The launcher's end of an agent: starting it, messages to it and from it, and its end."""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence

from procession.agent import boot, protocol
from procession.system import plain
from procession.system.child import Child
from procession.system.files import fill_standard
from procession.system.identity import start_of
from procession.system.processes import BlockedSignals
from procession.system.remains import page_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GOING_TIME = 10.0  # seconds that an agent may take to end what is below it, and go
DYING_TIME = 1.0  # seconds that it may take to die of SIGKILL; one that is frozen dies later


_dying: list[Child] = []  # that were killed, and are to be reaped when they die
_known: dict[int, Agent] = {}  # by pid: those of this process that have not been reaped
_lock = threading.Lock()  # held while an agent is started; see `others_than`


class Agent:
    """A running agent. `start` or `fork` make one.

    importing: the modules that it is to import, until it reports that it has. sharing: the name of
    the shared set-up that it runs, "" if none. stuck: something below it does not go at SIGKILL.
    began: in clock ticks since the machine did. page: the name of the page of memory of one that is
    a fork, and of its forks, "" where there is none; see `system.remains`. lasting: somebody uses
    it for one group after the other, and ends it himself.
    """

    def __init__(self, pid: int, sock: socket.socket, *, own: bool = True) -> None:
        sock.setblocking(False)
        self.pid = pid
        self.began = start_of(pid)
        self._sock = sock
        self._inode = os.fstat(sock.fileno()).st_ino
        self._receiver = protocol.Receiver(sock)
        self._sender = protocol.Sender(sock)
        self._process = Child(pid, own=own)  # the one to be reaped
        self.lost, self.crash = False, ""  # what it reported of its own failure
        self.stuck = False
        self.importing: tuple[str, ...] = ()
        self.sharing = ""
        self.page = ""
        self.lasting = False
        _known[pid] = self

    @classmethod
    def start(
        cls, env: Mapping[str, str], *, room: bool = False, passed: Sequence[int] = ()
    ) -> Agent:
        """Start one by exec. env: its environment. room: it may be kept.

        passed: descriptors that its ranks inherit. Raises OSError.
        """
        reap_dying()
        with _lock:
            started = boot.start(env, room=room, passed=passed)
            return cls(started.pid, started.sock)

    @classmethod
    def taken(cls, pid: int, sock: socket.socket) -> Agent:
        """Use one that another process has started. sock: to it; it belongs to this object.

        Raises OSError if it cannot be watched, as without a pidfd.
        """
        try:
            os.close(os.pidfd_open(pid))
        except OSError:
            sock.close()
            raise
        with _lock:
            return cls(pid, sock, own=False)

    @classmethod
    def fork(cls, live: Any, mask: set[Any] | None = None) -> Agent:
        """Start one by forking this process, with what its ranks call in memory.

        mask: the signals that are blocked in the ranks, this thread's if None. Raises OSError.
        """
        filled = fill_standard()  # nothing else may get these numbers; the child opens its own
        try:
            return cls._forked(live, mask)
        finally:
            for fd in filled:
                os.close(fd)

    @classmethod
    def _forked(cls, live: Any, mask: set[Any] | None) -> Agent:
        ours, theirs = socket.socketpair()
        launcher = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # pyright: ignore[reportUnnecessaryComparison]
                stream.flush()
        from procession.agent.main import main_forked
        from procession.agent.quiet import Quiet

        page, quiet = -1, Quiet()
        try:
            # A signal that comes now is for the launcher alone.
            with BlockedSignals(plain.valid_signals()) as before:
                page, name = page_file()
                pid = os.fork()
                if not pid:
                    ours.close()
                    blocked = before if mask is None else mask
                    main_forked(theirs, launcher, live, blocked, page, quiet)
        except BaseException:
            ours.close()
            raise
        finally:
            quiet.end()
            theirs.close()
            if page >= 0:
                os.close(page)
        agent = cls(pid, ours)
        agent.page = name
        return agent

    # -- talk

    def ending(self, seconds: float = DYING_TIME) -> str:
        """Say how it ended, or is about to end, in words; "" if that is not seen in time."""
        return self._process.ending(seconds)

    def fileno(self) -> int:
        """Give the socket's descriptor, for epoll."""
        return self._sock.fileno()

    def send(self, message: protocol.Message, fds: list[int], close: list[int]) -> None:
        """Send a message with descriptors, now or when the socket takes it; then close `close`."""
        self._sender.send(message, fds, close)
        self.lost = self.lost or self._sender.lost

    @property
    def waiting(self) -> bool:
        """Whether something waits to be sent: call `flush` when the socket can be written."""
        return self._sender.waiting

    @property
    def pidfd(self) -> int:
        """A descriptor that can be read when the process has ended, -1 if there is none."""
        return self._process.pidfd

    @property
    def says_more(self) -> bool:
        """Whether there is something to be received, or the end of it."""
        return protocol.is_readable(self.fileno())

    def flush(self) -> None:
        """Send what the socket takes."""
        self._sender.flush()
        self.lost = self.lost or self._sender.lost

    def receive(self) -> list[tuple[list[protocol.Message], list[int]]]:
        """Read messages, and the descriptors that go with them; `lost` is set if it is gone."""
        came = [(messages, fds) for (_, messages), fds in self._receiver.receive()]
        self.lost = self.lost or self._receiver.ended
        crashed = [str(m[1]) for messages, _ in came for m in messages if m[0] == "crashed"]
        self.crash = self.crash or "".join(crashed[:1])  # further ones follow from the first
        return came

    # -- end

    def wake(self) -> None:
        """Let it go on if it was stopped (SIGSTOP): it has something to do."""
        self._process.signal(signal.SIGCONT)

    def stop(self) -> None:
        """Have it stand still, until `wake`."""
        self._process.signal(signal.SIGSTOP)

    def kill(self) -> None:
        """Kill one that does not answer, and with it its ranks; it is lost then."""
        self.lost = True
        self._sender.drop()
        self._process.signal(signal.SIGKILL)

    @property
    def intact(self) -> bool:
        """Whether its socket is still open; a program may have closed all descriptors it found."""
        try:
            return os.fstat(self._sock.fileno()).st_ino == self._inode
        except OSError:
            return False

    def _hang_up(self) -> None:
        """Close the socket, but not what has its number now if the program has closed it."""
        self.lost = True
        self._sender.drop()
        self._receiver.close()
        if self.intact:
            self._sock.close()
        else:
            self._sock.detach()
            self._process.pidfd = -1

    def abandon(self) -> None:
        """Close this process's descriptors and forget it: after a fork, in the child."""
        self._hang_up()
        self._process.close()

    def let_go(self) -> None:
        """Close this process's end: it is a template. Who has started it reaps it."""
        self._hang_up()
        _known.pop(self._process.pid, None)
        if self._process.own:
            _dying.append(self._process)
        else:
            self._process.close()

    def close(self, timeout: float = GOING_TIME) -> bool:
        """Let it end everything below it and go; False if it is not gone within `timeout` seconds.

        One that does not go is killed; its ranks then get their parent-death signal.
        """
        self._hang_up()
        self.wake()
        gone = self._process.reaped(DYING_TIME if self.stuck else timeout)
        if not gone:
            self.kill()
        if not gone and not self._process.reaped(DYING_TIME):
            _dying.append(self._process)
            return False
        _known.pop(self._process.pid, None)
        self._process.close()
        return gone


def others_than(agent: Agent) -> list[int]:
    """Give the pids of this process's other agents. To be used while `starting` is held."""
    return [pid for pid in (*(e.pid for e in boot.early), *_known) if pid != agent.pid]


def starting() -> threading.Lock:
    """Give the lock that is held while an agent is started."""
    return _lock


def _forget_in_child() -> None:
    # A forked child must not keep the sockets open: an agent goes when its launcher is gone.
    global _lock
    _lock = threading.Lock()
    while _dying:
        _dying.pop().close()
    while _known:
        _known.popitem()[1].abandon()


def reap_dying() -> None:
    """Reap those that were killed, and took their time to die."""
    for _ in range(len(_dying)):
        try:
            process = _dying.pop(0)
        except IndexError:
            return  # another thread does the same
        if process.reaped(0.0):
            _known.pop(process.pid, None)
            process.close()
        else:
            _dying.append(process)


os.register_at_fork(after_in_child=_forget_in_child)
