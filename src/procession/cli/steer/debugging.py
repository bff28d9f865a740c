"""`procession debug`: Python's debugger in the ranks of a run, at the prompt of this terminal."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from typing import Any

from procession.cli import readers
from procession.cli.commands import parser_of
from procession.cli.say import say_note
from procession.cli.words import Option
from procession.control.ask import RunEnded
from procession.control.prompt import Prompt, edited
from procession.control.runs import Run, connect
from procession.explain.stacks import merge

EPILOG = """\
At the prompt, type commands of Python's pdb (help lists them), and:

  ranks           list the stopped ranks
  rank 5          switch to rank 5
  all p x.shape   run a command in all stopped ranks
  0-3 next        run a command in these ranks
  detach          continue all ranks, and leave
  q               ask whether to stop the run

Ctrl-C stops a running rank.

exit codes: 0; 1 if the run does not answer or cannot be debugged; 2 for a wrong command line or an
unknown run.

examples:
  procession debug last               at a breakpoint(), or wait for one
  procession debug train.py --rank 3  stop rank 3 at its next line
"""
PARSERS = {
    "debug": parser_of(
        "debug", "RUN [--rank N]", EPILOG,
        (
            Option(("--rank",), "N", "stop this rank at its next line", read=readers.count),
            Option(("--here",), "", "exit when no rank is stopped"),
        ),
    ),
}  # fmt: skip


def debug(options: dict[str, Any], run: Run) -> int:
    """Debug a run; returns the exit code."""
    rank: int | None = options.get("rank")
    if not run.socket:
        PARSERS["debug"].error(f"{run.id} {'cannot be reached' if run.runs else 'has ended'}")
    with connect(run) as connection:
        nproc = int(connection.ask("debug")["nproc"])
        if rank is not None and rank >= nproc:
            PARSERS["debug"].error(f"there is no rank {rank}: the ranks are 0 to {nproc - 1}")
        session = Prompt(
            connection, stays=not options.get("here"), look=lambda rank: _place_of(rank, run)
        )
        if rank is not None:
            session.halt(rank)

        def leave(*_: object) -> None:
            session.over = True
            if session.asks:
                raise RunEnded("it has ended")

        # A prompt waits in C: the end of the run has to interrupt it.
        signal.signal(signal.SIGTERM, leave)
        threading.Thread(target=_watch, args=(connection.socket,), daemon=True).start()
        with edited(session.complete):
            try:
                session.run()
            except RunEnded:
                print()
                say_note(f"{run.id} has ended")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the connection ends
    return 0


def _place_of(rank: int, run: Run) -> str:
    """Say where a rank is."""
    with connect(run) as other:  # events on the first one are not lost
        stacks: list[dict[str, Any]] = other.ask("stacks")
    return merge.format([s for s in stacks if s["rank"] == rank]).rstrip()


def _watch(sock: socket.socket) -> None:
    """Wait for the end of a connection, and say so."""
    hangup = select.poll()
    hangup.register(sock, select.POLLRDHUP)
    while hangup.poll():  # from now on: a signal just before the prompt waits would be lost
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
