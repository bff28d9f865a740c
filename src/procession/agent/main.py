"""The beginning of an agent, by exec or by fork; in a rank, the way to its program."""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import os
import sys

from procession.agent.protocol import close_all, is_readable
from procession.agent.quiet import Quiet
from procession.agent.server import Server, tell_crash
from procession.system.files import descriptors
from procession.worker import NEEDED
from procession.worker.shown import HUGE_PAGES, ROOM, TUNABLES

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    import signal
    from typing import Any, NoReturn


def main() -> None:
    """Be the agent; in its ranks, be the rank. `sys.argv`: its socket, its launcher's
    pid, and the descriptors that ranks inherit.
    """
    quiet = Quiet()
    sock_fd, launcher = map(int, sys.argv[1:3])
    passed = {int(fd) for fd in sys.argv[3].split(",") if fd}
    close_all([fd for fd in descriptors() - passed if fd > 2 and fd != sock_fd])
    os.set_inheritable(sock_fd, False)
    os.environ.pop(ROOM, None)  # it is there for its place in memory
    if os.environ.get(TUNABLES) == HUGE_PAGES:
        del os.environ[TUNABLES]  # it was for this process, not for what its forks start
    os.chdir("/")
    os.dup2(0, 2)  # up to here, a failure to start could be read on the launcher's stderr
    sock = socket.socket(fileno=sock_fd)
    here = os.getpid()
    try:
        _import_ahead(sock)
        server = Server(sock, launcher, quiet)
        job = server.serve()
    except Exception as e:
        if os.getpid() == here:
            tell_crash(sock, e)
        os._exit(1)
    server.sock.close()
    if job is not None:
        from procession.worker.bootstrap import run_in_fork

        run_in_fork(job)
    else:
        os._exit(0)  # an orderly exit of the interpreter would only take time


def _import_ahead(sock: socket.socket) -> None:
    """Import what ranks need while there is nothing else to do.

    A command that comes meanwhile waits for one of them, and programs need none.
    """
    for name in ("procession.worker.setup", *NEEDED):
        if is_readable(sock.fileno()):
            return
        __import__(name)


def main_forked(
    sock: socket.socket,
    launcher: int,
    live: Any,
    mask: set[signal.Signals] | set[int],
    page_fd: int,
    quiet: Quiet,
) -> NoReturn:
    """Be the agent of start method `fork`: a fork of the launcher, with its memory; or its rank.

    page_fd: the file of the page by which the launcher knows them; see `system.remains`. quiet:
    since before the fork, after which a collection could come at once.
    """
    import mmap

    from procession.worker import program, streams

    status = 1
    try:
        os.setsid()
        # Not in the launcher: what that forks besides is none of ours. It stays to the very end.
        _page = mmap.mmap(page_fd, 0)
        os.close(page_fd)
        program.live = live
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
        if (job := Server(sock, launcher, quiet).serve(mask)) is not None:
            from procession.worker.bootstrap import run_forked

            streams.renew()
            run_forked(job)
        status = 0
    finally:
        os._exit(status)
