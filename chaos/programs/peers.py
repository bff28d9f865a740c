"""What the other ranks do meanwhile; a module that ranks import."""

from __future__ import annotations

import os
import signal
import sys
import time

from chaos.programs.family import stay

KINDS = ("pause", "busy", "ignore", "print", "child", "daemon", "done", "obey")
ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def be(kind: str) -> None:
    """Be a peer of this kind: most do not return."""
    if kind == "done":
        return
    if kind == "ignore":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if kind == "obey":
        signal.signal(signal.SIGTERM, _obey)
    if kind == "child" and not os.fork():
        stay(obeys=False)
    if kind == "daemon" and not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        stay(obeys=False)
    number = 0
    while True:
        if kind == "print":
            say(number)
            number += 1
            time.sleep(0.001)
        elif kind != "busy":
            time.sleep(100)


def _obey(*_: object) -> None:
    sys.exit(0)


def say(number: int) -> None:
    """Write a line that shows if it was torn."""
    line = f"line {os.environ['RANK']} {number} {ALPHABET * (number % 40)} end\n"
    os.write(1, line.encode())
