"""A forkserver spoken to by its protocol, without a launcher."""

import os
import select

from conftest import until
from seams.forkserver import Receiver, boot, read_facts, send
from seams.system import own_mark


class Link:
    """One forkserver: what it is told, and what it says."""

    def __init__(self, pid, sock):
        self.pid = pid
        self.sock = sock
        self._receiver = Receiver(sock)
        self._heard = []

    @classmethod
    def start(cls, env):
        started = boot.start(env, room=True)
        return cls(started.pid, started.sock)

    def tell(self, *message, fds=()):
        send(self.sock, message, list(fds))

    def hear(self, kind):
        """Wait for a message of this kind; gives its words, and drops those before it."""
        poll = select.poll()
        poll.register(self.sock.fileno(), select.POLLIN)
        while True:
            while self._heard:
                message = self._heard.pop(0)
                if message[0] == kind:
                    return message[1:]
            assert poll.poll(20_000), f"no {kind}"
            for (_, messages), _fds in self._receiver.receive():
                self._heard += messages
            assert not self._receiver.ended, "it is gone"

    def take(self, env):
        """Take it as the next launcher does; gives why it cannot be, "" if it can."""
        pidfd = os.pidfd_open(os.getpid())
        words = {"mark": own_mark(), "pid": os.getpid(), "facts": read_facts(), "env": env}
        self.tell("take", words, fds=[pidfd])
        os.close(pidfd)
        return self.hear("taken")[0]

    def close(self, *, child):
        self.sock.close()
        if child:
            os.waitpid(self.pid, 0)
        else:
            until(lambda: not running(self.pid), f"the end of {self.pid}")


def state_of(pid):
    """Give the letter of a process's state, as ps shows it; X for one that is gone."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def running(pid):
    return state_of(pid) not in ("Z", "X")
