"""`procession run --detach`, in the process that gives the terminal back.

The launcher is a new process in a session of its own, which runs the same words; this one waits
until the group has started, or has not. So nothing of this process, which is going to end, is what
the group hangs on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from procession.cli import TOLD
from procession.cli.say import say
from procession.forkserver.boot import interpreter_flags

MODULES = {False: ("procession", "run"), True: ("procession.cli.torchrun",)}


def detach(words: Sequence[str], *, torchrun: bool) -> int:
    """Start the launcher, and tell what came of it; returns the exit code."""
    read_end, write_end = os.pipe()
    module, *first = MODULES[torchrun]
    command = [sys.executable, *interpreter_flags(), "-m", module, *first, *words]
    hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        launcher = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            env={**os.environ, TOLD: str(write_end)},
            pass_fds=(write_end,),
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGHUP, hangup)
        os.close(write_end)
    try:
        with open(read_end, "rb") as f:
            heard = f.read()
        return _tell(heard, launcher)
    except KeyboardInterrupt:
        launcher.terminate()
        launcher.wait()
        raise


def _tell(heard: bytes, launcher: subprocess.Popen[bytes]) -> int:
    try:
        told: dict[str, Any] = json.loads(heard)
    except ValueError:  # it has said itself what was wrong, or was killed
        code = launcher.wait()
        if code < 0:
            say(f"procession: the launcher was killed by signal {-code}\n", sys.stderr)
        return 128 - code if code < 0 else code or 1
    if "code" in told:
        if told["said"]:
            say(told["said"].rstrip("\n") + "\n", sys.stderr)
        if told["code"]:
            return int(told["code"])
    run = told["run"]
    launcher.returncode = 0  # it goes on, and is not to be waited for
    say(f"{run}\n", sys.stdout)
    say(
        f"procession: {run} runs on without this terminal, in {told['dir']}\n"
        f"procession: come back with `procession attach {run}`; end it with "
        f"`procession stop {run}`\n",
        sys.stderr,
    )
    return 0


__all__ = ["detach"]
