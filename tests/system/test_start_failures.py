import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import pytest
from rankwork import Refuses, double, whoami

import procession
from procession import Logs, Outcome, SpecError, StartFailed
from support import METHODS, OBEDIENT, failure_of, gone, run_python, write


def refused(*args, **options):
    """Ask for what cannot be done; gives the one line that says so."""
    with pytest.raises(SpecError) as caught:
        procession.run(*args, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 600
    return text


def test_missing_program():
    assert "no program 'no-such-program' on the PATH" in refused(["no-such-program"], nproc=2)
    assert "'/nowhere/prog'" in refused(["/nowhere/prog"])
    assert "['echo', 'a', 'b']" in refused("echo a b")


def test_program_that_is_not_executable(tmp_path):
    write(tmp_path / "prog", "#!/bin/sh\n")
    assert "not executable" in refused([str(tmp_path / "prog")])
    assert "is a directory" in refused([str(tmp_path)])


def test_program_that_is_no_program(tmp_path):
    """The kernel refuses it, as late as at exec: the other rank is ended."""
    bad = tmp_path / "bad"
    bad.write_bytes(b"\0\1\2\3 neither an interpreter line nor a format")
    bad.chmod(0o755)
    failed = failure_of([str(bad)], kind=StartFailed, nproc=3)
    assert failed.cause.outcome is Outcome.NOT_STARTED
    assert "Exec format error" in str(failed)
    assert "rank " in str(failed)
    assert str(bad) in str(failed)
    assert "#!" in failed.cause.note


def test_program_that_vanishes_for_one_rank_only(tmp_path, monkeypatch):
    """The check before the start passes, exec fails in one rank, the others are ended."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    for place in (good, bad):
        write(place / "tool", "#!/bin/sh\nexec sleep 100\n").chmod(0o755)
    (bad / "tool").write_bytes(b"\0nothing that could run")
    with pytest.raises(StartFailed) as caught:
        procession.start(
            ["tool"],
            nproc=3,
            env={r: {"PATH": f"{bad if r == 2 else good}:/usr/bin:/bin"} for r in range(3)},
            stop=OBEDIENT,
        )
    failed = caught.value
    assert [f.rank for f in failed.failures] == [2]
    assert {e.rank for e in failed.ended} == {0, 1}
    gone(e.pid for e in failed.ended if e.pid)


def test_directory_that_is_missing(tmp_path):
    assert "cwd" in refused(["true"], cwd=tmp_path / "none")
    assert "cwd" in refused(whoami, cwd=tmp_path / "none")


@pytest.mark.skipif(
    sys.version_info[:3] == (3, 13, 0), reason="cannot `import socket` there (a fault of 3.13.0)"
)
def test_directory_that_was_deleted(tmp_path, monkeypatch):
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    try:
        assert "directory" in refused(["true"], nproc=2)
        assert procession.run(["true"], cwd="/") == [None]
    finally:
        os.chdir("/")


@pytest.mark.parametrize("method", METHODS[:2])
def test_argument_that_cannot_be_pickled(method):
    lock = threading.Lock()
    text = refused(double, args=(1, lock), nproc=2, start_method=method)
    assert "argument 1" in text
    assert "lock" in text
    text = refused(double, args={0: (1,), 1: (lock,)}, nproc=2, start_method=method)
    assert "rank 1" in text
    assert "argument 0" in text
    text = refused(double, kwargs={"x": Refuses("my own reason")}, start_method=method)
    assert "'x'" in text
    assert "my own reason" in text


def test_log_directory_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refused(whoami, logs=Logs(dir=tmp_path / "file"))
    assert str(tmp_path / "file") in refused(whoami, logs=Logs(dir=tmp_path / "file" / "below"))


AS_USER = """
import os, resource, sys
sys.path[:0] = {path!r}
os.setgroups([])
os.setresgid({uid}, {uid}, {uid})
os.setresuid({uid}, {uid}, {uid})
os.environ["TMPDIR"] = {tmp!r}
import cloudpickle, procession, procession.forkserver
"""


def open_to_all(path):
    return all(p.stat().st_mode & 0o005 == 0o005 for p in (path, *path.parents))


def interpreter_for_all():
    """Find a Python that a user without rights may run; our own may lie in root's home."""
    for word in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        path = Path(word).resolve()
        if path.exists() and open_to_all(path):
            probe = "import sys; sys.exit(sys.version_info < (3, 10))"
            if not subprocess.run([path, "-c", probe], check=False).returncode:
                return str(path)
    return None


def as_user(uid, source):
    """Run a launcher as a user without rights."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become a user of no rights")
    import cloudpickle
    import tblib

    path = [str(Path(m.__file__).parents[1]) for m in (procession, cloudpickle, tblib)]
    python = interpreter_for_all()
    if python is None or not all(open_to_all(Path(p)) for p in path):
        pytest.skip("a user of no rights could not read this installation")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        os.chmod(place, 0o777)
        script = Path(place) / "main.py"
        script.write_text(AS_USER.format(path=path, uid=uid, tmp=place) + textwrap.dedent(source))
        done = subprocess.run(
            [python, script], cwd="/", capture_output=True, text=True, timeout=30, check=False
        )
        assert os.listdir(place) == ["main.py"]
    return done


@pytest.mark.parametrize("program", ['["sleep", "100"]', "sleeping"])
def test_limit_of_processes(program):
    """Half of the group can be started: the half is ended, and the limit is named."""
    done = as_user(
        54321,
        f"""
        import time, signal
        def sleeping():
            while True:
                signal.pause()
        resource.setrlimit(resource.RLIMIT_NPROC, (6, 6))
        try:
            procession.start({program}, nproc=40)
            print("started")
        except procession.StartFailed as e:
            print(type(e).__name__, e.cause.rank, len(e.ended))
            print(str(e).replace("\\n", "|"))
        print(procession.run(lambda: 5, nproc=2))
        procession.forkserver.close()
        left = [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()
                and os.stat("/proc/" + p).st_uid == 54321]
        print("left", left)
        """,
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("StartFailed")
    assert "ulimit -u" in lines[1]
    assert "temporarily unavailable" in lines[1]
    assert lines[2:] == ["[5, 5]", "left []"]


@pytest.mark.parametrize("limit", [12, 20, 30])
@pytest.mark.parametrize("program", ['["sleep", "100"]', "sleeping"])
def test_limit_of_descriptors(tmp_path, limit, program):
    main = write(
        tmp_path / "main.py",
        f"""
        import os, resource, signal, procession, procession.api.launch, cloudpickle, threading
        import procession.forkserver, time
        def sleeping():
            while True:
                signal.pause()
        def fds():
            return len(os.listdir("/proc/self/fd"))
        before = fds()
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, most))
        try:
            procession.start({program}, nproc=60)
            print("started")
        except (procession.StartFailed, procession.SpecError) as e:
            print(type(e).__name__)
            print(str(e).replace("\\n", "|"))
        procession.forkserver.close()
        deadline = time.monotonic() + 10
        while threading.active_count() > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        print(threading.active_count(), fds() == before, flush=True)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(40, {limit}), most))
        print(procession.run(lambda: 5, nproc=2))
        """,
    )
    done = run_python(main)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "StartFailed"
    assert "open files" in lines[1]
    assert "ulimit -n" in lines[1]
    assert lines[2:] == ["1 True", "[5, 5]"]


@pytest.mark.parametrize("name", ["procession", "procession-output"])
@pytest.mark.parametrize("program", [["sleep", "100"], signal.pause])
def test_no_thread_can_be_started(monkeypatch, name, program):
    real = threading.Thread.start

    def start(thread):
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    failed = failure_of(program, kind=StartFailed, nproc=2, logs=Logs(prefix="[{rank}]"))
    assert "can't start new thread" in str(failed)
    assert "ulimit -u" in str(failed)
