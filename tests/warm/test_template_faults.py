"""Whatever becomes of a template, a run works: it starts cold, and says so in one line."""

import contextlib
import os
import signal
import socket
import threading

import pytest
from keeping import kept_by_test

import procession
from conftest import alive, until
from seams.agent import encode
from seams.system import state_of
from seams.warm import inside, open_runtime, templates
from support import run_procession

COLD = "procession: warm: this run starts cold: "


@pytest.fixture
def kept():
    yield from kept_by_test()


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
    """A socket of this process in the place of a template's. says: what it answers."""

    def __init__(self, says, pid, user=None):
        (kept,) = templates()
        self.directory = open_runtime(make=True)
        name = kept.name.rpartition("-")[0]
        self.path = inside(self.directory, f"{name}-{pid}")
        self._says = says
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.bind(self.path)
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
        os.kill(kept.pid, signal.SIGKILL)

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
        os.unlink(self.path)
        os.close(self.directory)


def test_what_does_not_answer_is_not_used(caplog, kept):
    run(caplog)
    planted = Planted(b"", os.getpid())
    try:
        _, lines = run(caplog)
        cold_only(lines, f"what is kept cannot be used: {os.getpid()} does not answer")
        listed = run_procession("warm")
        assert listed.returncode == 1 and f"{os.getpid()} does not answer" in listed.stderr
    finally:
        planted.close()


def test_the_socket_of_another_process_is_not_used(caplog, kept):
    run(caplog)
    planted = Planted(b"", 1)
    try:
        _, lines = run(caplog)
        cold_only(lines, "what is kept cannot be used: the socket of 1 belongs to another process")
    finally:
        planted.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant a socket of another user")
def test_the_socket_of_another_user_is_not_used(caplog, kept):
    run(caplog)
    planted = Planted(encode(("reports", [("taken", 0, "")]), []), os.getpid(), user=65534)
    try:
        _, lines = run(caplog)
        cold_only(lines, f"the socket of {os.getpid()} belongs to another process")
    finally:
        planted.close()


def stop(pid):
    """Stop a template; the end of its run's socket, which may come just then, lets it go on."""

    def is_stopped():
        os.kill(pid, signal.SIGSTOP)
        return state_of(pid).letter == "T"

    until(is_stopped, "its stop")


def test_one_that_was_stopped_goes_on(caplog, kept):
    first, lines = run(caplog)
    cold_only(lines, "nothing is kept yet")
    stop(first)
    assert run(caplog) == (first, [])
    stop(first)
    stopped = run_procession("warm", "stop")
    assert stopped.stdout == "procession: 1 ended, except what a run uses\n", stopped
    until(lambda: not alive(first), "its end")


def test_one_that_was_killed_leaves_a_socket_that_the_next_run_removes(caplog, kept):
    first, _ = run(caplog)
    os.kill(first, signal.SIGKILL)
    until(lambda: not alive(first), "its end")
    second, lines = run(caplog)
    cold_only(lines, "what was kept has just ended, or works for another run")
    assert [each.pid for each in templates()] == [second]


def test_one_that_is_asked_to_end_ends(caplog, kept):
    first, _ = run(caplog)
    os.kill(first, signal.SIGTERM)
    until(lambda: not alive(first), "its end")
    second, _ = run(caplog)
    os.kill(second, signal.SIGTERM)
    until(lambda: not alive(second), "the end of one that was started by this process")


def test_one_whose_socket_was_removed_goes(caplog, kept):
    first, _ = run(caplog)
    (template,) = templates()
    directory = open_runtime(make=False)
    os.unlink(inside(directory, template.name))
    os.close(directory)
    second, lines = run(caplog)
    cold_only(lines, "nothing is kept yet")
    until(lambda: not alive(first), "the end of what cannot be reached", 20)
    assert run(caplog) == (second, [])


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


def test_garbage_does_not_disturb_a_template(caplog, kept):
    first, _ = run(caplog)
    (template,) = templates()
    directory = open_runtime(make=False)
    for words in (b"garbage\n", b"\0" * 100, b"\1\0\0\0\0\0\0\0?", encode(("dance",), []),
                  encode(("take",), []), encode((), []), b"[" * 100_000):  # fmt: skip
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(inside(directory, template.name))
            client.sendall(words)
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):
                pass
    os.close(directory)
    assert kept.one()["pid"] == first
    assert run(caplog) == (first, [])


def test_a_refusal_names_what_is_wrong():
    with pytest.raises(procession.SpecError, match="warm must be seconds, more than 0"):
        procession.run(parent, warm=-1)
