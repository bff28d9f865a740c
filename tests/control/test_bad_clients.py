"""Clients that do not read, send garbage, or are killed: the run does not notice."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from clients import TALK, connected, raw, read_all, sockets, start

from seams.control import CLIENTS, NotAnswered
from support import QUICK, until


def line(**fields):
    return json.dumps({"procession": 1, **fields}).encode() + b"\n"


@pytest.fixture
def group():
    with start(stop=QUICK) as running:
        yield running
        assert not running.state.final, running.wait()  # which raises its report
        ranks = until(looked, "room for a client: those of the test have gone")["ranks"]
        assert [r["state"] for r in ranks] == ["RUNNING", "RUNNING"]


def looked():
    """Give what a new client sees; None if there is no room for it."""
    with connected() as client, contextlib.suppress(NotAnswered):
        return client.ask("look")


@pytest.mark.parametrize(
    "garbage",
    [b"\0\xff\n", b"GET / HTTP/1.0\r\n\r\n", b"[]\n", b"\n", line(ask="x"), b"{" * 70_000],
)
def test_garbage_is_answered_and_hung_up_on(group, garbage):
    with raw() as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(garbage)
        assert b'"error"' in read_all(client)


def test_requests_without_end_that_nobody_reads(group):
    with raw() as client:
        client.settimeout(0.5)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 1 << 24:
                sent += client.send(line(ask="look") * 100)
        assert sent < 1 << 24  # it is not heard any more


def test_there_is_a_limit(group):
    with contextlib.ExitStack() as open_:
        clients = [open_.enter_context(connected()) for _ in range(CLIENTS)]
        assert all(client.ask("look") for client in clients)
        with raw() as one_more:
            assert b"others are looking" in read_all(one_more)
        clients[0].close()
        until(looked, "room for another")


def test_a_slow_reader_finds_a_gap_and_the_ranks_do_not_wait(capfd):
    with capfd.disabled(), open(os.devnull, "w") as null:
        saved, sys.stdout = sys.stdout, null
        try:
            group = start(TALK, nproc=2, stop=QUICK)
        finally:
            sys.stdout = saved
    with group, raw() as client, client.makefile("rb") as read, connected() as fast:
        client.sendall(line(ask="log", follow=True))
        assert b'"value"' in read.readline()
        fast.ask("log", follow=True)
        lines = 0
        for said in fast.events():
            lines += said["text"].count("\n") if said["event"] == "log" else said["lines"]
            if lines > 20_000:
                break
        while (said := json.loads(read.readline()))["event"] != "left_out":
            assert said["event"] == "log"
        assert said["lines"] > 0  # how many is a matter of who ran when


KILLED = """
import os, signal, socket, sys
for _ in range(40):
    if not (pid := os.fork()):
        s = socket.socket(socket.AF_UNIX)
        s.connect(sys.argv[1])
        s.sendall(b'{"procession": 1, "ask": "log", "follow": true}\\n')
        s.recv(10)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
"""


def test_clients_that_are_killed(group):
    pids, before = group.pids(), len(os.listdir("/proc/self/fd"))
    place = f"{os.environ['XDG_RUNTIME_DIR']}/procession/{sockets()[0]}"
    subprocess.run([sys.executable, "-Ic", KILLED, place], timeout=60, check=True)
    assert group.pids() == pids
    until(lambda: len(os.listdir("/proc/self/fd")) <= before + 3, "descriptors given back")


def test_one_that_does_not_read_does_not_hold_up_the_end():
    group = start()
    with raw() as client, connected() as other:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        client.sendall(line(ask="look") * 90)
        client.sendall(line(ask="log", follow=True))
        other.ask("look")
        group.stop(signal=signal.SIGKILL)
        group.wait(10)
    assert not sockets()
