"""Whatever becomes of the keeper, a run works: it starts cold, and says so in one line."""

import contextlib
import os
import signal
import socket
import threading

import pytest
from keeping import keeper

import procession
from conftest import alive, until
from seams.system import state_of
from seams.warm import NAME, Connection, NoKeeper, inside, open_runtime
from support import run_procession

COLD = "procession: warm: this run starts cold: "


@pytest.fixture
def kept():
    yield from keeper()


def parent():
    return os.getppid()


def run(caplog):
    """Run one rank warm; gives its agent and the lines about it."""
    caplog.clear()
    (pid,) = procession.run(parent, nproc=1, warm=True, preload=["decimal"])
    return pid, [record.getMessage() for record in caplog.records]


def cold_only(lines, why):
    """Check that a run started cold for this reason, and keeps nothing, in one line each."""
    assert len([line for line in lines if line.startswith(COLD)]) == 1, lines
    assert why in lines[0], lines
    assert all(line.startswith("procession: warm: nothing is kept: ") for line in lines[1:]), lines
    assert len(lines) <= 2, lines


class Planted:
    """A socket in the place of the keeper's. says: what it answers; user: to whom it belongs."""

    def __init__(self, says=b"", user=None):
        self._says = says
        self.directory = open_runtime(make=True)
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.bind(inside(self.directory, NAME))
        if user is not None:
            os.seteuid(user)
        try:
            self._sock.listen(16)  # the kernel takes the user from here
        finally:
            if user is not None:
                os.seteuid(0)
        self._clients = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                client, _ = self._sock.accept()
            except OSError:
                return
            self._clients.append(client)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(self._says)

    def close(self):
        self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._sock.close()
        for client in self._clients:
            client.close()
        os.unlink(inside(self.directory, NAME))
        os.rmdir(os.readlink(f"/proc/self/fd/{self.directory}"))
        os.close(self.directory)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (b"garbage\n", "it does not speak JSON"),
        (b"[1, 2]\n", "it does not speak in JSON objects"),
        (b'{"warm": 99}\n', "it is of another version of procession"),
        (b'{"warm": 1, "kept": [{"pid": "x"}, 7]}\n', "nothing is kept yet"),
        (b"x" * (5 << 20), "it sends a line without an end"),
        (b"", "the keeper cannot be used: it does not answer"),
    ],
)
def test_what_is_no_keeper_is_not_used(says, why, caplog):
    planted = Planted(says)
    try:
        _, lines = run(caplog)
        cold_only(lines, why)
        listed = run_procession("warm")
        assert listed.returncode == (0 if "yet" in why else 1), listed
    finally:
        planted.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant a socket of another user")
def test_the_socket_of_another_user_is_not_used(caplog):
    planted = Planted(b'{"warm": 1, "kept": []}\n', user=65534)
    try:
        _, lines = run(caplog)
        cold_only(lines, "the keeper cannot be used: its socket belongs to user 65534")
    finally:
        planted.close()


def test_one_that_is_stopped_is_not_waited_for(caplog, kept):
    first, lines = run(caplog)
    cold_only(lines, "nothing is kept yet")
    assert kept.one()["pid"] == first
    pid = kept.pid()
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state_of(pid).letter == "T", "its stop")
    other, lines = run(caplog)
    cold_only(lines, "the keeper cannot be used: it is stopped")
    assert other != first
    told = run_procession("warm")
    assert (told.returncode, f"kill -9 {pid}" in told.stderr) == (1, True)
    os.kill(pid, signal.SIGCONT)
    assert run(caplog) == (first, [])


def test_a_keeper_whose_socket_was_removed_goes_and_leaves_the_next_one_s_alone(caplog, kept):
    first, _ = run(caplog)
    lonely = kept.pid()
    directory = open_runtime(make=False)
    os.unlink(inside(directory, NAME))
    os.close(directory)
    second, lines = run(caplog)
    cold_only(lines, "nothing is kept yet")
    for pid in (lonely, first):
        until(lambda pid=pid: not alive(pid), "the end of what cannot be reached")
    assert run(caplog) == (second, [])
    assert kept.pid() != lonely


def test_without_a_directory_for_its_socket_nothing_is_kept(caplog, monkeypatch, tmp_path):
    place = tmp_path / "runtime"
    place.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    (place / "procession").mkdir(mode=0o777)
    (place / "procession").chmod(0o777)
    _, lines = run(caplog)
    cold_only(lines, "others may enter")
    (place / "procession").rmdir()
    (place / "procession").write_text("")
    _, lines = run(caplog)
    cold_only(lines, "is a link, or no directory")


def test_garbage_for_the_keeper_does_not_disturb_it(caplog, kept):
    first, _ = run(caplog)
    directory = open_runtime(make=False)
    for words in (b"garbage\n", b"\0" * 100, b'{"warm": 1, "ask": "take"}\n',
                  b'{"warm": 1, "ask": "keep", "kept": {"pid": 1}}\n',
                  b'{"warm": 1, "ask": "dance"}\n', b"[" * 100_000 + b"\n"):  # fmt: skip
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(inside(directory, NAME))
            client.sendall(words)
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):
                pass
    os.close(directory)
    assert kept.one()["pid"] == first
    assert run(caplog) == (first, [])


def test_a_keeper_that_nobody_needs_goes(kept):
    (pid,) = procession.run(parent, nproc=1, warm=True, preload=["decimal"])
    kept.seen.add(pid)
    connection = Connection()
    keeping = connection.pid
    connection.close()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(keeping), "the end of the keeper")
    with pytest.raises(NoKeeper):
        Connection()


def test_a_refusal_names_what_is_wrong():
    with pytest.raises(procession.SpecError, match="warm must be seconds, more than 0"):
        procession.run(parent, warm=-1)
