"""A forkserver spoken to by its protocol, without a launcher."""

import os
import select

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

    def close(self):
        self.sock.close()
        os.waitpid(self.pid, 0)
