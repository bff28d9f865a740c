import signal
import threading

import pytest
from rankwork import Refuses, double, whoami

import procession
from procession import Logs, SpecError, StartFailed
from support import METHODS, OBEDIENT, failure_of, gone, run_python, write


def refused(*args, **options):
    """Ask for what cannot be done; gives the one line that says so."""
    with pytest.raises(SpecError) as caught:
        procession.run(*args, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 600
    return text


def test_what_is_missing_or_of_another_kind(tmp_path):
    file, none = write(tmp_path / "file", "#!/bin/sh\n"), tmp_path / "none"
    for program, options, said in (
        (["no-such-program"], {"nproc": 2}, "no program 'no-such-program' on the PATH"),
        (["/nowhere/prog"], {}, "'/nowhere/prog'"),
        ("echo a b", {}, "['echo', 'a', 'b']"),
        ([str(file)], {}, "not executable"),
        ([str(tmp_path)], {}, "is a directory"),
        (["true"], {"cwd": none}, "cwd"),
        (whoami, {"cwd": none}, "cwd"),
        (whoami, {"logs": Logs(dir=file)}, str(file)),
        (whoami, {"logs": Logs(dir=file / "below")}, str(file)),
    ):
        assert said in refused(program, **options)


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
    assert "Exec format error" in str(failed)
    assert "#!" in failed.cause.note
    gone(e.pid for e in failed.ended if e.pid)


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


@pytest.mark.parametrize("limit", [12, 30])
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
