"""What else the launcher's process does is not disturbed, and does not disturb the group."""

import os
import resource
import signal
import subprocess
import threading

import pytest
from rankwork import whoami

import procession
from procession import Phase, Restart
from support import OBEDIENT, PYTHON, alive, failure_of, gone, run_python, until, write


def test_exit_codes_of_the_users_own_processes():
    codes = {}

    def mine(n):
        codes[n] = subprocess.run(["sh", "-c", f"exit {n}"], check=False).returncode

    def groups(stop):
        while not stop.is_set():
            procession.run(["true"], nproc=2)
            failure_of(["false"], nproc=2)

    stop = threading.Event()
    worker = threading.Thread(target=groups, args=(stop,))
    with procession.start(["sleep", "100"], nproc=4, stop=OBEDIENT):
        worker.start()
        try:
            for first in range(0, 50, 10):
                threads = [
                    threading.Thread(target=mine, args=(n,)) for n in range(first, first + 10)
                ]
                for t in threads:
                    t.start()
                for t in threads:
                    t.join()
        finally:
            stop.set()
            worker.join()
    assert codes == {n: n for n in range(50)}


def test_the_users_waitpid_for_any_child_does_not_disturb_the_group(tmp_path):
    main = write(
        tmp_path / "main.py",
        """
        import os, procession
        for n in range(3):
            pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], os.environ)
            group = procession.start(lambda: 5, nproc=2)
            seen = os.waitpid(pid, 0)
            print(os.waitstatus_to_exitcode(seen[1]), group.wait().values)
        group = procession.start(["sleep", "0.05"], nproc=2)
        procession_forkserver = None
        try:
            while True:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    break
        except ChildProcessError:
            pass
        print(group.wait().state.name)
        import procession.forkserver
        procession.forkserver.close()
        print(procession.run(lambda: 5))
        """,
    )
    done = run_python(main)
    assert done.stdout.splitlines() == ["7 [5, 5]"] * 3 + ["SUCCEEDED", "[5]"], done.stderr
    assert done.stderr == ""


def test_ignored_sigchld_in_the_launcher(tmp_path):
    """Then the kernel reaps the launcher's children; the group is below the forkserver."""
    main = write(
        tmp_path / "main.py",
        """
        import procession, signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print(procession.run(lambda: 5, nproc=2))
        print(procession.run(["true"], nproc=2, start_method="forkserver"))
        try:
            procession.run(["sh", "-c", "exit 3"], nproc=2)
        except procession.GroupFailed as e:
            print(e.cause.exit)
        print(procession.run(lambda: 6, start_method="fork"))
        """,
    )
    done = run_python(main)
    assert done.stdout.splitlines() == ["[5, 5]", "[None, None]", "exit code 3", "[6]"]
    assert done.stderr == ""


def test_sigchld_handler_of_the_user_sees_the_users_children(tmp_path):
    main = write(
        tmp_path / "main.py",
        """
        import os, procession, signal, time
        seen = []
        def reap(*_):
            try:
                while True:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                    if not pid:
                        return
                    seen.append(os.waitstatus_to_exitcode(status))
            except ChildProcessError:
                pass
        signal.signal(signal.SIGCHLD, reap)
        for _ in range(3):
            procession.run(["true"], nproc=3)
            os.posix_spawn("/bin/sh", ["sh", "-c", "exit 9"], os.environ)
            while 9 not in seen:
                time.sleep(0.001)
            print(seen.count(9), len(seen))
            seen.clear()
        """,
    )
    done = run_python(main)
    assert (done.stdout, done.stderr) == ("1 1\n" * 3, "")


def test_a_fork_of_the_user_does_not_keep_the_ranks_alive(tmp_path):
    """A child of the launcher that lives on holds no socket that the forkserver waits for."""
    main = write(
        tmp_path / "main.py",
        """
        import os, procession, time
        group = procession.start(["sleep", "1000"], nproc=2)
        child = os.fork()
        if not child:
            time.sleep(1000)
        print(child, *group.pids().values(), flush=True)
        os._exit(0)
        """,
    )
    process = subprocess.Popen([PYTHON, str(main)], stdout=subprocess.PIPE, text=True)
    with process:
        child, *pids = map(int, process.stdout.readline().split())
        assert process.wait(10) == 0
        gone(pids)
        assert alive(child)
        os.kill(child, signal.SIGKILL)


def test_a_fork_of_the_user_may_launch_by_itself(tmp_path):
    main = write(
        tmp_path / "main.py",
        """
        import os, procession
        print(procession.run(lambda: 1, nproc=2), flush=True)
        with procession.start(["sleep", "100"], nproc=2) as group:
            pid = os.fork()
            if not pid:
                print(procession.run(lambda: 2, nproc=2), flush=True)
                raise SystemExit(4)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), group.state.name, flush=True)
        print(procession.run(lambda: 3, nproc=2))
        """,
    )
    # Python 3.12 and later warn of each fork in a process with threads: the supervisor's.
    done = run_python("-W", "ignore::DeprecationWarning", main)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[1, 1]", "[2, 2]", "4 RUNNING", "[3, 3]"]


def test_a_fork_of_the_user_that_exits_does_not_stop_the_group():
    with procession.start(["sleep", "100"], nproc=2, stop=OBEDIENT) as group:
        for _ in range(3):
            pid = os.fork()
            if not pid:
                os._exit(0)
            os.waitpid(pid, 0)
        assert group.state is Phase.RUNNING
        assert all(alive(p) for p in group.pids().values())


def look():
    import os
    import resource

    umask = os.umask(0)
    os.umask(umask)
    return (
        os.environ.get("CHANGING"),
        os.getcwd(),
        umask,
        resource.getrlimit(resource.RLIMIT_NOFILE),
        sorted(os.sched_getaffinity(0)),
        os.nice(0),
    )


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_what_changes_between_launches_is_what_the_ranks_get(tmp_path, monkeypatch, method):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    cores = sorted(os.sched_getaffinity(0))
    old = os.umask(0o022)
    try:
        for n in range(3):
            (tmp_path / str(n)).mkdir()
            monkeypatch.setenv("CHANGING", str(n))
            monkeypatch.chdir(tmp_path / str(n))
            os.umask(0o020 + n)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft - n, hard))
            some = cores if n != 1 else cores[:1]
            os.sched_setaffinity(0, some)
            expected = (str(n), str(tmp_path / str(n)), 0o020 + n, (soft - n, hard), some)
            for seen in procession.run(look, nproc=2, start_method=method):
                assert seen[:5] == expected
        monkeypatch.delenv("CHANGING")
        assert procession.run(look, start_method=method)[0][0] is None
    finally:
        os.umask(old)
        os.sched_setaffinity(0, cores)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_priority_of_the_launcher(tmp_path):
    main = write(
        tmp_path / "main.py",
        """
        import os, procession
        for _ in range(3):
            print(procession.run(lambda: os.nice(0), nproc=2), os.nice(0))
            os.nice(1)
        """,
    )
    done = run_python(main)
    for line in done.stdout.splitlines():
        own = line.split()[-1]
        assert line == f"[{own}, {own}] {own}"


def test_variables_that_python_reads_at_its_start(tmp_path, monkeypatch):
    write(tmp_path / "rare_on_pythonpath.py", "x = 1")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    script = write(tmp_path / "s" / "s.py", "import rare_on_pythonpath")
    procession.run(procession.Script(str(script)))
    monkeypatch.delenv("PYTHONPATH")
    failed = failure_of(procession.Script(str(script)))
    assert "ModuleNotFoundError" in str(failed)


def test_variables_by_argument_that_python_reads_at_its_start(tmp_path):
    write(tmp_path / "rare_on_pythonpath.py", "x = 1")
    script = write(tmp_path / "s" / "s.py", "import rare_on_pythonpath")
    for method in ("forkserver", "spawn"):
        values = procession.run(
            procession.Script(str(script)),
            nproc=2,
            env={"PYTHONPATH": str(tmp_path)},
            start_method=method,
        )
        assert values == [None, None]  # no ModuleNotFoundError


def test_closed_standard_streams_of_the_launcher(tmp_path):
    main = write(
        tmp_path / "main.py",
        f"""
        import os, procession
        for fd in (0, 1, 2):
            os.close(fd)
        values = procession.run(lambda: os.getpid() > 0, nproc=2, logs=procession.Logs(prefix=""))
        values += procession.run(["true"], nproc=2)
        with open({str(tmp_path / "out")!r}, "w") as f:
            f.write(repr(values))
        """,
    )
    run_python(main)
    assert (tmp_path / "out").read_text() == "[True, True, None, None]"


def test_launches_from_a_thread_that_then_ends():
    """The parent-death signal of Linux is about threads: the ranks must outlive this one."""
    groups = []

    def launch():
        groups.append(procession.start(["sleep", "100"], nproc=2, stop=OBEDIENT))

    for method in (launch,):
        thread = threading.Thread(target=method)
        thread.start()
        thread.join()
    with groups[0] as group:
        until(lambda: threading.active_count() < 20)
        assert group.state is Phase.RUNNING
        assert all(alive(p) for p in group.pids().values())


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_functions_launched_from_a_thread_that_then_ends(method):
    def pause():
        while True:
            signal.pause()

    groups = []
    thread = threading.Thread(
        target=lambda: groups.append(
            procession.start(pause, nproc=2, start_method=method, stop=OBEDIENT)
        )
    )
    thread.start()
    thread.join()
    with groups[0] as group:
        assert procession.run(whoami, nproc=2) == [0, 1]
        assert group.state is Phase.RUNNING


# -- restarts


def test_restart_until_it_succeeds(tmp_path):
    def work(place):
        import os
        import signal

        attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
        with open(f"{place}/{attempt}.{os.environ['RANK']}", "w") as f:
            f.write(f"{os.getpid()} {os.environ['MASTER_PORT']}")
        if attempt != "2":
            if os.environ["RANK"] == "1":
                raise ValueError(attempt)
            while True:
                signal.pause()
        return attempt, os.environ["TORCHELASTIC_MAX_RESTARTS"]

    group = procession.start(
        work, args=(str(tmp_path),), nproc=3, restart=Restart(max=2), stop=OBEDIENT
    )
    assert group.wait(30).values == [("2", "2")] * 3
    assert [e.attempt for e in group if e.kind == "starting"] == [0, 1, 2]
    # a rank that was ended early may not have written
    said = [f.read_text().split() for f in tmp_path.iterdir() if " " in f.read_text()]
    pids = {int(words[0]) for words in said}
    assert len(pids) >= 3 + 2
    assert set(group.pids().values()) <= pids
    assert len({words[1] for words in said}) == 3  # a new port for each attempt


def test_restarts_are_counted_and_the_last_failure_is_told():
    def work():
        raise ValueError("attempt " + os.environ["TORCHELASTIC_RESTART_COUNT"])

    failed = failure_of(work, nproc=2, restart=Restart(max=2))
    assert failed.end.attempt == 2
    assert str(failed.__cause__) == "attempt 2"
    assert "after 2 restarts" in str(failed)


def test_restart_of_commands_has_its_own_logs(tmp_path):
    program = ["sh", "-c", "echo attempt $TORCHELASTIC_RESTART_COUNT; exit 3"]
    logs = procession.Logs(dir=tmp_path, redirect=procession.Std.ALL)
    failure_of(program, restart=Restart(max=1), logs=logs)
    (run,) = tmp_path.iterdir()
    for attempt in (0, 1):
        log = run / f"attempt_{attempt}" / "0" / "stdout.log"
        assert log.read_text() == f"attempt {attempt}\n"


def test_a_stop_between_attempts_ends_it():
    def work():
        raise ValueError

    group = procession.start(work, restart=Restart(max=100000), stop=OBEDIENT)
    until(lambda: any(e.attempt >= 3 for e in list(group._supervisor.journal.events)))
    group.stop()
    assert group.state.final
    assert 3 <= group._supervisor.lifecycle.attempt < 100000


def test_no_restart_of_what_cannot_be_started(tmp_path):
    bad = tmp_path / "bad"
    bad.write_bytes(b"\0nothing")
    bad.chmod(0o755)
    failed = failure_of([str(bad)], kind=procession.StartFailed, restart=Restart(max=5))
    assert failed.end.attempt == 0


def test_nothing_of_an_attempt_is_left_when_the_next_begins(tmp_path):
    def work(place):
        import os
        import sys

        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            if not os.fork():
                os.setsid()
                with open(place, "w") as f:
                    f.write(f"{os.getpid()}\n")
                while True:
                    signal.pause()
            while not os.path.exists(place) or not os.path.getsize(place):
                pass
            sys.exit(1)
        with open(place) as f:
            return os.path.exists(f"/proc/{int(f.read())}")

    place = str(tmp_path / "pid")
    assert procession.run(work, args=(place,), restart=Restart(max=1)) == [False]
