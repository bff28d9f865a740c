"""A run's socket: who has one, who may use it, what it answers, and that it goes."""

import logging
import os
import pickle
import signal
import stat
import threading
import time

import pytest
from clients import connected, directory, sockets, start

import procession
from seams.control import (
    Connection,
    Door,
    NotAnswered,
    Refused,
    open_runtime,
    runtime_directory,
)
from seams.system import directories
from support import QUICK, run_procession, until

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")


def test_not_by_default():
    with start(control=None, stop=QUICK):
        assert not sockets()


def test_by_a_variable(monkeypatch):
    monkeypatch.setenv("PROCESSION_CONTROL", "1")
    with start(control=None, stop=QUICK) as group:
        assert sockets() == [group.run_id]
    with start(control=False, stop=QUICK):
        assert not sockets()


def test_it_is_the_users_alone_and_goes_with_the_group():
    with start(stop=QUICK) as group:
        place = runtime_directory()
        assert stat.S_IMODE(os.stat(place).st_mode) == 0o700
        assert stat.S_IMODE(os.stat(os.path.join(place, group.run_id)).st_mode) == 0o600
        assert sockets() == [group.run_id]
    assert not os.path.exists(place)


def test_look_and_report():
    with start(stop=QUICK) as group, connected() as connection:
        look = connection.ask("look")
        assert {r["rank"]: r["pid"] for r in look["ranks"]} == group.pids()
        assert look["state"] == "RUNNING"
        assert "2 of 2 ranks alive" in connection.ask("report")


def test_stop_and_what_it_tells():
    group = start()
    with connected() as connection:
        assert connection.ask("stop", grace=5) == "asked"
        (over,) = [e for e in connection.events(20) if e["event"] == "over"]
        assert [rank["state"] for rank in over["look"]["ranks"]] == ["EXITED", "EXITED"]
        assert over["look"]["state"] == "STOPPED"
        assert connection.end["state"] == "STOPPED"
        assert connection.end["code"] == 128 + signal.SIGTERM
        assert "was stopped" in connection.end["report"]
    assert group.wait().state is procession.Phase.STOPPED
    assert group.stopped_by == signal.SIGTERM


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
            ("stop", {"signal": 12345}, "must be a signal that ends a program"),
        ):
            with pytest.raises(NotAnswered, match=said):
                connection.ask(name, **given)
        connection.send("stop", signal=12345)
        answer = next(connection.events(20))
        assert answer["to"] == "stop"
        assert "must be a signal that ends a program" in answer["error"]
        assert connection.ask("look")["state"] == "RUNNING"


def test_stop_takes_no_refusal_for_the_end_of_the_run(monkeypatch):
    """What an answer means does not depend on the words in it."""
    with start(stop=QUICK) as group:

        def refuse(**_):
            raise procession.SpecError("the run has not ended: it is suspended")

        with monkeypatch.context() as patched:
            patched.setattr(group, "stop", refuse)
            done = run_procession("stop", group.run_id)
        assert done.returncode == 1
        assert done.stdout == ""
        assert "the run has not ended: it is suspended" in done.stderr
        assert group.state is procession.Phase.RUNNING


def test_runs_of_one_name_are_told_apart():
    doors = [Door("run") for _ in range(3)]
    assert [door.name for door in doors] == ["run", "run~2", "run~3"]
    for door in doors:
        door.close()
    assert not os.path.exists(runtime_directory())


def test_a_fork_of_the_launcher_holds_nothing_open():
    group = start(stop=QUICK)
    with connected() as connection:
        connection.ask("look")
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    with directory() as fd:
        group.kill()
        group.wait()
        with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
            Connection(fd, group.run_id)
    os.close(write)
    assert os.waitpid(pid, 0)[1] == 0


# -- who may not


@root_only
def test_another_user_is_refused():
    with start(stop=QUICK) as group:
        with connected() as connection:
            connection.ask("look")
        place = runtime_directory()
        os.chmod(place, 0o711)  # as if somebody had opened them
        os.chmod(os.path.join(place, group.run_id), 0o666)
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.chdir(place)
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                import socket

                s = socket.socket(socket.AF_UNIX)
                s.settimeout(10)
                s.connect(group.run_id)
                try:
                    s.sendall(b'{"procession": 1, "ask": "look"}\n')
                    heard = s.recv(100)
                except OSError:
                    heard = b""
                os.write(write, b"heard " + heard)
            except BaseException as e:
                os.write(write, repr(e).encode())
            finally:
                os._exit(0)
        os.close(write)
        assert os.waitpid(pid, 0)[1] == 0
        assert os.read(read, 1000) == b"heard "
        os.close(read)
        os.chmod(place, 0o700)
        with connected() as connection:
            assert connection.ask("look")["state"] == "RUNNING"


def others(place):
    os.chmod(place, 0o755)


def foreign(place):
    os.chown(place, 65534, 65534)


def link(place):
    os.rename(place, place + ".real")
    os.symlink(place + ".real", place)


def test_a_directory_that_has_no_place_is_named(tmp_path, monkeypatch):
    place = f"{tmp_path}/nowhere/procession"
    monkeypatch.setattr(directories, "runtime_directory", lambda: place)
    with pytest.raises(Refused, match=f"there is no directory {tmp_path}/nowhere$"):
        open_runtime(make=True)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (others, "chmod 700"),
        pytest.param(foreign, "belongs to user 65534", marks=root_only),
        (link, "is a link"),
    ],
)
def test_a_directory_that_is_not_ours_alone_is_not_used(spoil, said, caplog):
    place = runtime_directory()
    os.mkdir(place, 0o700)
    spoil(place)
    with pytest.raises(Refused, match=said):
        open_runtime(make=False)
    with caplog.at_level(logging.WARNING), start(stop=QUICK) as group:
        assert group.state is procession.Phase.RUNNING  # it runs all the same
    (record,) = [r for r in caplog.records if "cannot be seen" in r.message]
    assert said in record.message
    if os.path.islink(place):
        os.unlink(place)
        os.rmdir(place + ".real")
    else:
        os.rmdir(place)
