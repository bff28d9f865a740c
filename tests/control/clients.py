"""Clients of a run's socket, good and bad, and groups to look at."""

import contextlib
import os
import socket
import time

import procession
from procession import Logs
from seams.control import Connection, runtime_directory, sockets

WAIT = "import signal\nwhile True: signal.pause()"
TALK = "import sys\nwhile True: print('x' * 200)"


def start(code=WAIT, nproc=2, **options):
    options.setdefault("logs", Logs(prefix=None if nproc == 1 else "auto"))
    options.setdefault("control", True)
    return procession.start(["python3", "-uc", code], nproc=nproc, **options)


def connected():
    """Connect to the only run there is, while a block runs."""
    (name,) = sockets()
    return contextlib.closing(Connection(name))


def raw():
    """Give a plain socket that is connected to the only run there is."""
    (name,) = sockets()
    found = socket.socket(socket.AF_UNIX)
    found.settimeout(10)
    found.connect(os.path.join(runtime_directory(), name))
    return found


def read_all(connection, patience=10.0):
    """Read until the other side hangs up; gives what came."""
    data = b""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        try:
            block = connection.recv(1 << 16)
        except ConnectionResetError:
            return data
        if not block:
            return data
        data += block
    raise AssertionError("it did not hang up")
