"""Clients that do not read, send garbage, or are killed: the run does not notice.

PROCESSION_STRESS_ATTACHES (40): how many clients are killed while they follow the log.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from clients import TALK, connected, raw, read_all, sockets, start

import procession
from seams.control import CLIENTS
from support import QUICK, until

ATTACHES = int(os.environ.get("PROCESSION_STRESS_ATTACHES", "40"))


def line(**fields):
    return json.dumps({"procession": 1, **fields}).encode() + b"\n"


@pytest.fixture
def group(capsys):
    with start(stop=QUICK) as running:
        yield running
        assert running.state is procession.Phase.RUNNING
        with connected() as connection:
            assert connection.ask("look")["state"] == "RUNNING"


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
        with connected() as other:
            assert other.ask("look")["state"] == "RUNNING"


def test_there_is_a_limit(group):
    clients = [connected() for _ in range(CLIENTS)]
    for client in clients:
        client.ask("look")
    with raw() as one_more:
        assert b"others are looking" in read_all(one_more)
    clients[0].close()

    def room():
        with connected() as client, contextlib.suppress(Exception):
            return client.ask("look")

    until(room, "room for another")
    for client in clients:
        client.close()


def test_a_slow_reader_finds_a_gap_and_the_ranks_do_not_wait(capfd):
    with capfd.disabled(), open(os.devnull, "w") as null:
        saved, sys.stdout = sys.stdout, null
        try:
            group = start(TALK, nproc=2, stop=QUICK)
        finally:
            sys.stdout = saved
    with group, raw() as client, client.makefile("rb") as read:
        client.sendall(line(ask="log", follow=True))
        assert b'"value"' in read.readline()
        with connected() as fast:
            before = shown(fast)
            until(lambda: shown(fast) > before + 20_000, "the ranks going on", patience=30)
        missed = 0
        for _ in range(100_000):
            said = json.loads(read.readline())
            if said["event"] == "left_out":
                missed = said["lines"]
                break
        assert missed > 0  # how many is a matter of who ran when


def shown(connection):
    """Give roughly how many lines were shown, by those that a new reader would get last."""
    connection.ask("log", follow=True)
    count = 0
    for said in connection.events(0.2):
        count += said["text"].count("\n") if said["event"] == "log" else said.get("lines", 0)
    shown.total = getattr(shown, "total", 0) + count
    return shown.total


def test_clients_that_say_nothing_have_to_go(group, monkeypatch):
    from seams.control import serve

    monkeypatch.setattr(serve, "FIRST_WORDS", 0.05)
    with raw() as client:
        assert read_all(client) == b""


KILLED = """
import os, signal, socket, sys
for name in sys.argv[2:]:
    pid = os.fork()
    if not pid:
        s = socket.socket(socket.AF_UNIX)
        s.connect(f"{sys.argv[1]}/{name}")
        s.sendall(b'{"procession": 1, "ask": "log", "follow": true}\\n')
        s.recv(10)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
"""


@pytest.mark.timeout(60 + ATTACHES)
def test_clients_that_are_killed(group):
    pids = group.pids()
    before = len(os.listdir("/proc/self/fd"))
    (name,) = sockets()
    place = os.environ["XDG_RUNTIME_DIR"] + "/procession"
    began = time.monotonic()
    for first in range(0, ATTACHES, 500):
        count = min(500, ATTACHES - first)
        done = subprocess.run(
            [sys.executable, "-Ic", KILLED, place, *[name] * count], timeout=50 + count, check=False
        )
        assert done.returncode == 0
    seconds = time.monotonic() - began
    print(f"{ATTACHES} killed clients: {seconds:.2f} s, {1e3 * seconds / ATTACHES:.1f} ms each")
    assert group.pids() == pids
    with connected() as connection:
        look = connection.ask("look")
        assert [r["state"] for r in look["ranks"]] == ["RUNNING", "RUNNING"]
    until(lambda: len(os.listdir("/proc/self/fd")) <= before + 3, "descriptors given back")


def test_one_that_does_not_read_does_not_hold_up_the_end():
    group = start()
    with raw() as client, socket.socket(socket.AF_UNIX):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        client.sendall(line(ask="look") * 90)
        client.sendall(line(ask="log", follow=True))
        with connected() as other:
            other.ask("look")
        group.stop(signal=signal.SIGKILL)
        began = time.monotonic()
        group.wait(10)
        assert time.monotonic() - began < 5
    assert not sockets()
