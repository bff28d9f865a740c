"""A run's socket: who has one, who may use it, what it answers, and that it goes."""

import logging
import os
import pickle
import re
import signal
import stat
import threading
import time

import pytest
from clients import connected, sockets, start

import procession
from seams.control import (
    Connection,
    NotAnswered,
    Refused,
    RunEnded,
    open_runtime,
    runtime_directory,
)
from seams.system import directories
from support import QUICK, run_python, until

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")


@pytest.mark.parametrize(
    ("variable", "given", "seen"), [("", None, False), ("1", None, True), ("1", False, False)]
)
def test_who_has_one(variable, given, seen, monkeypatch):
    monkeypatch.setenv("PROCESSION_CONTROL", variable)
    with start(control=given, stop=QUICK) as group:
        assert sockets() == [group.run_id] * seen


def test_it_is_the_users_alone_and_tells_of_the_run_to_its_end():
    group = start()
    place = runtime_directory()
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(os.path.join(place, group.run_id)).st_mode) == 0o600
    with connected() as connection, connected() as silent:
        look = connection.ask("look")
        assert {r["rank"]: r["pid"] for r in look["ranks"]} == group.pids()
        assert look["state"] == "RUNNING"
        assert connection.ask("stop", grace=5) == "asked"
        assert [*connection.events(20)] == []
        assert connection.end["state"] == "STOPPED"
        assert connection.end["code"] == 128 + signal.SIGTERM
        assert "was stopped" in connection.end["report"]
        assert [*silent.events(20)] == []
        assert silent.end == connection.end
    assert group.wait().state is procession.Phase.STOPPED
    assert group.stopped_by == signal.SIGTERM
    assert not sockets()


def test_a_program_does_not_take_a_run_that_was_stopped_for_one_that_is_done(tmp_path):
    def work():
        if os.environ["RANK"] == "0":
            return "done"
        (tmp_path / "there").touch()
        return time.sleep(1000)

    def stop():
        until((tmp_path / "there").exists)
        with connected() as connection:
            until(lambda: connection.ask("look")["ranks"][0]["state"] == "EXITED")
            connection.ask("stop", grace=5)

    other = threading.Thread(target=stop)
    other.start()
    with pytest.raises(procession.GroupStopped) as caught:
        procession.run(work, nproc=2, control=True, name="sleeper")
    other.join()
    assert str(caught.value).startswith("sleeper was stopped: 2 ranks")
    assert f"stopped by SIGTERM from another terminal (pid {os.getpid()}" in str(caught.value)
    assert caught.value.values == ["done", None]
    assert not caught.value.end.failures
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (str(copied), copied.values) == (str(caught.value), ["done", None])


def test_what_cannot_be_done_is_said_and_the_connection_stays():
    with start(stop=QUICK), connected() as connection:
        for name, given, said in (
            ("signal", {"rank": 7, "signal": 9}, "there is no rank 7"),
            ("signal", {"rank": 0}, "missing 1 required"),
            ("stop", {"signal": 12345}, "must be a signal that ends a program"),
            ("stop", {"grace": "long"}, "grace must be seconds"),
            ("look", {"hard": True}, "unexpected keyword argument 'hard'"),
        ):
            with pytest.raises(NotAnswered, match=said):
                connection.ask(name, **given)
        assert connection.ask("look")["state"] == "RUNNING"


def test_a_fork_of_the_launcher_holds_nothing_open():
    group = start(stop=QUICK)
    with connected() as connection:
        connection.ask("look")
    read, write = os.pipe()
    if not (pid := os.fork()):
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    group.kill()
    group.wait()
    with pytest.raises(RunEnded):
        Connection(group.run_id)
    os.close(write)
    assert os.waitpid(pid, 0)[1] == 0


# -- who may not


VISIT = """
import os, socket, sys
os.chdir(sys.argv[1])
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[2])
try:
    s.sendall(b'{"procession": 1, "ask": "look"}\\n')
    print("heard", s.recv(100))
except OSError:
    print("heard", b"")
"""


@root_only
def test_another_user_is_refused():
    with start(stop=QUICK) as group:
        place = runtime_directory()
        os.chmod(place, 0o711)  # as if somebody had opened them
        os.chmod(os.path.join(place, group.run_id), 0o666)
        done = run_python("-Ic", VISIT, place, group.run_id, timeout=60)
        assert (done.stdout, done.stderr) == ("heard b''\n", "")
        os.chmod(place, 0o700)
        with connected() as connection:
            assert connection.ask("look")["state"] == "RUNNING"


def open_to_others(place):
    os.mkdir(place, 0o755)


def of_another(place):
    os.mkdir(place, 0o700)
    os.chown(place, 65534, 65534)


def link(place):
    os.symlink("elsewhere", place)


def nowhere(place):
    os.rmdir(os.path.dirname(place))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (open_to_others, "chmod 700"),
        pytest.param(of_another, "belongs to user 65534", marks=root_only),
        (link, "is a link"),
        (nowhere, "there is no directory .*/top$"),
    ],
)
def test_a_directory_that_is_not_ours_alone_is_not_used(spoil, said, caplog, tmp_path, monkeypatch):
    place = tmp_path / "top" / "procession"
    place.parent.mkdir()
    monkeypatch.setattr(directories, "runtime_directory", lambda: str(place))
    spoil(place)
    with pytest.raises(Refused, match=said):
        open_runtime(make=True)
    with caplog.at_level(logging.WARNING), start(stop=QUICK) as group:
        assert group.state is procession.Phase.RUNNING  # it runs all the same
    (record,) = [r for r in caplog.records if "cannot be seen" in r.message]
    assert re.search(said, record.message.removesuffix(" [P303]"))
