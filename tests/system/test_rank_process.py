"""A rank is a process like any other: descriptors, signals, exit handlers, threads, stdin."""

import gc
import os
import signal
import subprocess
from pathlib import Path

import pytest

import procession
from procession import Logs, Script, Std
from support import METHODS, run_python, shell, write


def outputs(tmp_path, program, nproc=1, **options):
    logs = Logs(dir=tmp_path / "logs", redirect=Std.ALL)
    with procession.start(program, nproc=nproc, logs=logs, **options) as group:
        ends = group.wait().ranks
    return [Path(e.stdout_log).read_text() for e in ends]


LIST_FDS = "ls -l /proc/self/fd | sed -n 's/.* \\([0-9]*\\) -> .*/\\1/p' | sort -n | tr '\\n' ' '"


def test_a_command_inherits_none_of_the_launchers(tmp_path):
    read, write_end = os.pipe()
    os.set_inheritable(read, True)
    os.set_inheritable(write_end, True)
    try:
        assert outputs(tmp_path, shell(LIST_FDS), nproc=2) == ["0 1 2 3 "] * 2
    finally:
        os.close(read)
        os.close(write_end)


@pytest.mark.parametrize("method", METHODS[:2])
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


@pytest.mark.parametrize("method", ["forkserver", "fork"])
def test_what_a_function_opens_is_closed_by_nobody_else(method):
    def lost():
        opened = [fd for _ in range(20) for fd in os.pipe()]
        gc.collect()  # of what the process has that this one is a fork of
        return [fd for fd in opened if not os.path.exists(f"/proc/self/fd/{fd}")]

    assert procession.run(lost, nproc=4, start_method=method) == [[]] * 4


SIGNALS = """
    import signal
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(("SigBlk", "SigIgn", "SigCgt", "ShdPnd", "SigPnd")):
                print(line.strip())
    print([(n.name, str(signal.getsignal(n))) for n in signal.Signals if n.name != "SIGWINCH"])
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


@pytest.mark.parametrize("method", METHODS[:2])
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
