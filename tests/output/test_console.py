import fcntl
import io
import os
import pty
import socket
import threading
import time
import tty

import pytest
from following import piped, terminal, until

from seams.output import Console


def is_blocking(fd):
    return not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK


class Unread:
    """A console that is full and that nobody reads."""

    def __init__(self, console):
        self.console = console
        self.abandon = os.eventfd(0)

    def check(self):
        """Writes are given up, by time and by descriptor; and there is no busy waiting."""
        console = self.console
        assert not console.write(b"x\n" * (1 << 20), timeout=0.05)
        assert not console.write(b"y\n" * 1000, timeout=0)
        results = []
        data = b"z\n" * 100_000
        writer = threading.Thread(
            target=lambda: results.append(console.write(data, abandon=self.abandon))
        )
        writer.start()
        begun = time.process_time()
        writer.join(0.2)
        assert writer.is_alive()
        assert time.process_time() - begun < 0.1
        os.eventfd_write(self.abandon, 1)
        writer.join(5)
        assert results == [False]
        os.close(self.abandon)


def test_pipe_that_nobody_reads():
    with piped() as (console, viewer):
        Unread(console).check()
        assert not console.quiet
        assert is_blocking(1)
        viewer.look()
        assert console.write(b"again\n", timeout=5)
        viewer.until(b"again\n")


@pytest.mark.parametrize("raw", [True, False])
def test_terminal_that_nobody_reads(raw):
    with terminal(raw) as (console, viewer):
        Unread(console).check()
        viewer.look()
        assert console.write(b"again\n", timeout=5)
        viewer.until(b"again")


def test_socket_that_nobody_reads():
    ours, theirs = socket.socketpair()
    with ours, theirs, os.fdopen(os.dup(ours.fileno()), "w") as stream:
        console = Console(stream)
        Unread(console).check()
        assert is_blocking(ours.fileno())
        console.close()


@pytest.mark.parametrize("kind", ["pipe", "pty"])
def test_what_cannot_be_opened_again(kind, monkeypatch):
    """Without /proc, small writes after poll."""
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *a, **k: real("/nonexistent/" + path, *a, **k))
    with (piped if kind == "pipe" else terminal)() as (console, viewer):
        monkeypatch.undo()
        assert console.write(b"first " * 200 + b"\n")
        viewer.until(b"first \n")
        Unread(console).check()


def test_a_master_of_terminals_is_not_opened_again():
    master, slave = pty.openpty()
    tty.setraw(slave)
    with os.fdopen(master, "wb", buffering=0) as stream:
        console = Console(stream)
        assert console.write(b"typed\n")
        assert os.read(slave, 100) == b"typed\n"
        console.close()
    os.close(slave)


@pytest.mark.parametrize("make", [piped, terminal])
def test_shared_description_stays_blocking_and_all_arrives(make):
    data = b"".join(b"%d\n" % i for i in range(200_000))
    with make() as (console, viewer):
        assert os.get_blocking(console._fd) is False
        writer = threading.Thread(target=console.write, args=(data,))
        writer.start()
        until(lambda: len(viewer.look()) == len(data), "all of it")
        writer.join()
        assert viewer.seen == data
        assert not console.midline


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_reader_gone_is_told_once(kind):
    ours, theirs = os.pipe() if kind == "pipe" else (s.detach() for s in socket.socketpair())
    told = []
    with os.fdopen(theirs, "w") as stream:
        console = Console(stream, lambda: told.append(console.quiet))
        assert console.write(b"somebody\n") and not told
        os.close(ours)
        for _ in range(3):
            assert console.write(b"nobody\n")
        assert told == [True]
        console.close()


def test_terminal_gone():
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as stream:
        console = Console(stream)
        os.close(master)
        assert console.write(b"nobody\n") and console.quiet
        console.close()


def test_regular_file_shares_its_offset(tmp_path):
    with open(tmp_path / "log", "w") as stream:
        stream.write("before\n")
        console = Console(stream)
        console.write(b"between\n")
        stream.write("after\n")
        console.close()
    assert (tmp_path / "log").read_bytes() == b"before\nbetween\nafter\n"


class Broken:
    def write(self, text):
        raise RuntimeError("no")


def closed():
    stream = open(os.devnull, "w")  # noqa: SIM115
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, object(), Broken(), closed()])
def test_no_console(stream):
    console = Console(stream)
    assert console.write(b"x\n") and console.quiet
    console.close()


def test_replaced_streams():
    text = io.StringIO()
    console = Console(text)
    assert not console.colour
    console.write("é\n".encode() + b"\xff\n")
    console.close()
    assert text.getvalue() == "é\n\ufffd\n"


class Notebook(io.TextIOBase):
    """Like a notebook's stream: it has a descriptor, which leads elsewhere."""

    def __init__(self, fd):
        self.fd = fd
        self.text = ""

    def fileno(self):
        return self.fd

    def write(self, text):
        self.text += text
        return len(text)


def test_an_object_with_a_descriptor_is_called():
    r, w = os.pipe()
    stream = Notebook(w)
    Console(stream).write(b"cell\n")
    assert stream.text == "cell\n"
    os.close(r)
    os.close(w)


@pytest.mark.parametrize(
    ("environment", "on_terminal", "on_pipe"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_colour(environment, on_terminal, on_pipe, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with terminal() as (console, _):
        assert console.colour is on_terminal
    with piped() as (console, _):
        assert console.colour is on_pipe
