"""A fork of a forkserver that is left behind as it is, for a later launch to begin with.

Theory of operation. Before a forkserver imports modules that may change soon, it leaves a fork of
itself, which has only what was imported so far. The fork is a forkserver as well, with a socket
of its own, which the first one sends to its launcher; it exits when that socket is closed or the
launcher is gone. It must not be a child of the first one, which ends everything below it when its
run is over. So it is forked twice, and the first forkserver is no subreaper at that moment.
"""

from __future__ import annotations

import _socket as socket
import os
import signal

from procession.forkserver.forking import close_all
from procession.system.prctl import be_no_subreaper, become_subreaper


def leave(owner: int) -> tuple[int, socket.socket, int] | None:
    """Fork this process, which has no children; None if that cannot be done.

    Gives, in this process, the pid of the fork, the socket to it, and -1; in the fork 0, its end of
    the socket, and the pidfd of its owner. owner: that pidfd in this process.
    """
    try:
        ours, theirs = socket.socketpair()
    except OSError:
        return None
    try:
        owner = os.dup(owner)
        read_end, write_end = os.pipe()
    except OSError:
        ours.close()
        theirs.close()
        return None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = between = 0
    try:
        be_no_subreaper()
        between = os.fork()
        if not between and _is_between(write_end):
            os._exit(0)
        os.close(write_end)
        write_end = -1
        if between:
            pid = int(os.read(read_end, 20) or -1)
            os.waitpid(between, 0)  # not before has the fork another parent
    except OSError:
        pid = -1
    if pid:
        become_subreaper()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    close_all([read_end, write_end])
    if not pid:
        ours.close()
        return 0, theirs, owner
    theirs.close()
    os.close(owner)
    if pid > 0:
        return pid, ours, -1
    ours.close()
    return None


def _is_between(write_end: int) -> bool:
    """Fork once more, and say the pid; False in the second fork. Never raises."""
    try:
        pid = os.fork()
        if pid:
            os.write(write_end, b"%d" % pid)
            return True
        os.setsid()
    except BaseException:
        os._exit(1)
    return False
