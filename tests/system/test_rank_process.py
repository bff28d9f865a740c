"""A rank is a process like any other: descriptors, signals, exit handlers, threads, stdin."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

import procession
from procession import Logs, Script, Std
from support import PYTHON, failure_of, run_python, shell, write

METHODS = ("forkserver", "spawn", "fork")


def outputs(tmp_path, program, nproc=1, **options):
    logs = Logs(dir=tmp_path / "logs", redirect=Std.ALL)
    with procession.start(program, nproc=nproc, logs=logs, **options) as group:
        ends = group.wait().ranks
    return [Path(e.stdout_log).read_text() for e in ends]


LIST_FDS = "ls -l /proc/self/fd | sed -n 's/.* \\([0-9]*\\) -> .*/\\1/p' | sort -n | tr '\\n' ' '"


def test_a_command_has_three_descriptors(tmp_path):
    # the listing itself opens one more
    outs = outputs(tmp_path, shell(LIST_FDS), nproc=3)
    assert outs == ["0 1 2 3 "] * 3


def test_a_command_inherits_none_of_the_launchers(tmp_path):
    read, write_end = os.pipe()
    os.set_inheritable(read, True)
    os.set_inheritable(write_end, True)
    try:
        assert outputs(tmp_path, shell(LIST_FDS), nproc=2) == ["0 1 2 3 "] * 2
    finally:
        os.close(read)
        os.close(write_end)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_children_of_a_function_have_three_descriptors(method):
    def child():
        fds = subprocess.run(
            ["ls", "/proc/self/fd"], stdout=subprocess.PIPE, text=True, check=True, close_fds=False
        )
        return fds.stdout.split()

    for fds in procession.run(child, nproc=3, start_method=method):
        assert sorted(fds, key=int) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_function_has_few_descriptors(method):
    def mine():
        found = {}
        for fd in os.listdir("/proc/self/fd"):
            try:
                found[fd] = os.readlink(f"/proc/self/fd/{fd}")
            except OSError:
                pass
        return found

    for fds in procession.run(mine, nproc=3, start_method=method):
        others = {fd: to for fd, to in fds.items() if int(fd) > 2}
        (stacks,) = [int(fd) for fd, to in others.items() if to.startswith("/memfd:procession-st")]
        assert stacks >= 60  # the low ones are the program's
        del others[str(stacks)]
        assert len(others) == 1, others  # its outcome channel
        assert next(iter(others.values())).startswith("socket:")


SIGNALS = """
    import signal
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(("SigBlk", "SigIgn", "SigCgt", "ShdPnd", "SigPnd")):
                print(line.strip())
    print(sorted((n.name, str(signal.getsignal(n))) for n in signal.Signals))
"""


# The C library's own, which its posix_spawn leaves ignored and which it sets when it needs them.
INTERNAL = (1 << 31) | (1 << 32)


def signal_sets(status):
    pairs = [line.split() for line in status.splitlines() if line.startswith("Sig")]
    return {name: int(number, 16) & ~INTERNAL for name, number in pairs}


def test_signals_of_a_command_are_those_of_a_subprocess(tmp_path):
    program = ["grep", "-h", "^Sig[BIC]", "/proc/self/status"]
    expected = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    for out in outputs(tmp_path, program, nproc=2):
        assert signal_sets(out) == signal_sets(expected)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_signals_of_a_script_are_those_of_python(tmp_path, method):
    script = write(tmp_path / "s.py", SIGNALS)
    expected = run_python(script).stdout
    for out in outputs(tmp_path, Script(str(script)), nproc=2, start_method=method):
        seen, wanted = signal_sets(out), signal_sets(expected)
        # Crashes in native code are explained by faulthandler, which catches their signals.
        seen.pop("SigCgt:"), wanted.pop("SigCgt:")
        assert seen == wanted
        assert out.splitlines()[-1] == expected.splitlines()[-1]


MASKED = """
    import procession, signal
    show = ["grep", "-h", "^Sig[BI]", "/proc/self/status"]
    def change(ignore, block):
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignore else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGUSR1] if block else [])
    for ignore, block in [(1, 1), (0, 0), (1, 0)]:
        change(ignore, block)
        procession.run(show)
"""


def test_ignored_and_blocked_signals_are_those_of_the_launcher(tmp_path):
    done = run_python(write(tmp_path / "main.py", MASKED))
    assert done.stderr == ""
    usr1, hup = 1 << (signal.SIGUSR1 - 1), 1 << (signal.SIGHUP - 1)
    lines = done.stdout.splitlines()
    sets = [signal_sets("\n".join(lines[i : i + 2])) for i in (0, 2, 4)]
    assert [(s["SigBlk:"], s["SigIgn:"]) for s in sets] == [(usr1, hup), (0, 0), (0, hup)]


def test_a_pipe_that_closes_ends_a_command_by_sigpipe():
    failed = failure_of(shell("kill -PIPE $$; exit 3"))
    assert failed.cause.exit.signal == signal.SIGPIPE


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_exit_handlers_and_threads_run_to_their_end(tmp_path, method):
    def work(place):
        import atexit
        import os
        import threading
        import time

        rank = os.environ["RANK"]
        open_to = threading.Event()

        def thread():
            open_to.wait()
            deadline = time.monotonic() + 0.05
            while time.monotonic() < deadline:
                pass
            with open(f"{place}/thread{rank}", "w") as f:
                f.write("done")

        def at_exit():
            with open(f"{place}/atexit{rank}", "w") as f:
                f.write("done")

        threading.Thread(target=thread).start()
        atexit.register(at_exit)
        open_to.set()
        return rank

    values = procession.run(work, args=(str(tmp_path),), nproc=2, start_method=method)
    assert values == ["0", "1"]
    expected = {"thread0", "thread1"}
    if method != "fork":  # its exit handlers would be the launcher's
        expected |= {"atexit0", "atexit1"}
    assert {p.name for p in tmp_path.iterdir() if p.read_text() == "done"} >= expected


def test_fork_does_not_run_the_launchers_exit_handlers(tmp_path):
    main = write(
        tmp_path / "main.py",
        """
        import atexit, os, procession
        atexit.register(lambda: print("handler", flush=True))
        print("begin")
        print(procession.run(lambda: 1, nproc=3, start_method="fork"))
        """,
    )
    done = run_python(main)
    assert (done.stdout, done.stderr) == ("begin\n[1, 1, 1]\nhandler\n", "")


def test_exit_handlers_of_a_rank_that_raises(tmp_path):
    def work(place):
        import atexit

        atexit.register(lambda: open(place, "w").close())
        raise ValueError

    failure_of(work, args=(str(tmp_path / "there"),))
    assert (tmp_path / "there").exists()


@pytest.mark.parametrize("reader", [0, 1, None])
@pytest.mark.parametrize("kind", ["command", "function"])
def test_stdin_goes_to_one_rank(tmp_path, reader, kind):
    call = '["cat"]' if kind == "command" else "read"
    main = write(
        tmp_path / "main.py",
        f"""
        import procession, sys
        def read():
            text = sys.stdin.read()
            print("got", repr(text), flush=True)
        group = procession.start({call}, nproc=2, stdin={reader})
        group.wait()
        """,
    )
    done = run_python(main, input="hello\n")
    assert done.stderr == ""
    if kind == "command":
        assert done.stdout == ("" if reader is None else f"[{reader}] hello\n")
    else:
        expected = {f"[{r}] got {('hello' + chr(10) if r == reader else '')!r}" for r in range(2)}
        assert set(done.stdout.splitlines()) == expected


def test_a_rank_reads_line_by_line_while_it_runs(tmp_path):
    main = write(
        tmp_path / "main.py",
        """
        import procession
        def ask():
            for _ in range(2):
                print("you said", input(), flush=True)
        procession.run(ask, nproc=1) if False else None
        with procession.start(ask, nproc=1, stdin=0) as group:
            group.wait()
        """,
    )
    process = subprocess.Popen(
        [PYTHON, str(main)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        for word in ("one", "two"):
            process.stdin.write(word + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"you said {word}\n"
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.mark.parametrize("method", METHODS)
def test_ranks_have_sessions_of_their_own(method):
    def look():
        return os.getpid(), os.getpgid(0), os.getsid(0)

    values = procession.run(look, nproc=2, start_method=method)
    assert len({v[2] for v in values}) == 2
    assert all(pid == group == session for pid, group, session in values)


@pytest.mark.parametrize("method", METHODS)
def test_umask_priority_and_limits_are_the_launchers(method):
    def look():
        import resource

        before = os.umask(0)
        return before, os.nice(0), resource.getrlimit(resource.RLIMIT_NOFILE)

    import resource

    old = os.umask(0o027)
    try:
        values = procession.run(look, nproc=2, start_method=method)
    finally:
        os.umask(old)
    assert values == [(0o027, os.nice(0), resource.getrlimit(resource.RLIMIT_NOFILE))] * 2


def test_output_of_a_rank_without_a_newline_is_not_lost(tmp_path):
    def work():
        print("no newline", end="")
        os._exit(0)

    logs = Logs(dir=tmp_path, redirect=Std.ALL)
    failed = failure_of(work, logs=logs)
    assert Path(failed.cause.stdout_log).read_text() == "no newline"


@pytest.mark.parametrize("method", METHODS)
def test_streams_of_a_function(tmp_path, method):
    def work():
        import subprocess
        import sys

        print("print")
        sys.stdout.buffer.write(b"buffer\n")
        os.write(1, b"write\n")
        subprocess.run(["echo", "child"], check=True)
        print("err", file=sys.stderr)
        return sys.stdin.read()

    logs = Logs(dir=tmp_path, redirect=Std.ALL)
    with procession.start(work, logs=logs, start_method=method) as group:
        result = group.wait()
    assert result.values == [""]
    (end,) = result.ranks
    assert Path(end.stdout_log).read_text() == "print\nbuffer\nwrite\nchild\n"
    assert Path(end.stderr_log).read_text() == "err\n"
