"""The agent of start method `fork`: a fork of the launcher, with its memory."""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import os

from procession.agent.server import Server

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    import signal
    from typing import Any, NoReturn

    from procession.agent.quiet import Quiet


def main_forked(
    sock: socket.socket,
    launcher: int,
    live: Any,
    mask: set[signal.Signals] | set[int],
    page_fd: int,
    quiet: Quiet,
) -> NoReturn:
    """Be the agent in a process that was forked from the launcher, and its ranks.

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
        job = Server(sock, launcher, quiet).serve(mask)
        if job is not None:
            from procession.worker.bootstrap import run_forked

            streams.renew()
            run_forked(job)
        status = 0
    finally:
        os._exit(status)
