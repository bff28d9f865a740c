"""Clients of a run's socket, good and bad, and groups to look at."""

import contextlib
import os
import socket
import time

import procession
from procession import Logs
from seams.control import Connection, open_runtime, runtime_directory

WAIT = "import signal\nwhile True: signal.pause()"
TALK = "import sys\nwhile True: print('x' * 200)"


def sockets():
    try:
        return sorted(os.listdir(runtime_directory()))
    except FileNotFoundError:
        return []


def start(code=WAIT, nproc=2, **options):
    options.setdefault("logs", Logs(prefix=None if nproc == 1 else "auto"))
    options.setdefault("control", True)
    return procession.start(["python3", "-uc", code], nproc=nproc, **options)


@contextlib.contextmanager
def directory():
    fd = open_runtime(make=False)
    try:
        yield fd
    finally:
        os.close(fd)


def connected(patience=10.0):
    """Connect to the only run there is."""
    (name,) = sockets()
    with directory() as fd:
        return Connection(fd, name, patience)


def raw(patience=10.0):
    """Give a plain socket that is connected to the only run there is."""
    (name,) = sockets()
    found = socket.socket(socket.AF_UNIX)
    found.settimeout(patience)
    with directory() as fd:
        found.connect(f"/proc/self/fd/{fd}/{name}")
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
