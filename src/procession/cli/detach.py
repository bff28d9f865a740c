"""`procession run --detach`, in the process that gives the terminal back.

The launcher is a new process in a session of its own, which reads the same words. This process
waits until the group has started, or has failed to start, and then ends. The group does not depend
on it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from procession.cli.process import TOLD
from procession.cli.say import say
from procession.forkserver.boot import interpreter_flags, own_python


def detach(words: Sequence[str]) -> int:
    """Start the launcher, and say how that went; returns the exit code."""
    read_end, write_end = os.pipe()
    command = own_python("procession.cli:command", "run", *words, flags=interpreter_flags())
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
    except ValueError:  # it has printed what was wrong, or was killed
        code = launcher.wait()
        if code < 0:
            say(f"procession: the launcher was killed by signal {-code} [P313]\n", sys.stderr)
        return 128 - code if code < 0 else code or 1
    if "code" in told:
        if told["said"]:
            say(told["said"].rstrip("\n") + "\n", sys.stderr)
        if told["code"]:
            return int(told["code"])
    run = told["run"]
    launcher.returncode = 0  # it goes on, and nobody waits for it
    say(f"{run}\n", sys.stdout)
    say(
        f"procession: {run} runs on without this terminal, in {told['dir']}\n"
        f"procession: come back with `procession attach {run}`; end it with "
        f"`procession stop {run}`\n",
        sys.stderr,
    )
    return 0
