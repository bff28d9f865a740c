"""What the command exits with, and how signals end it."""

import re
import signal

import pytest
from commandline import PROCESSION, Watched, run

from support import gone, reader_of, until, write

WAIT = """
    import os, pathlib, signal, sys
    pathlib.Path(sys.argv[1], os.environ["RANK"]).write_text(f"{os.getpid()}\\n")
    while True:
        signal.pause()
"""


@pytest.fixture
def waiting(tmp_path):
    """A script whose ranks wait for ever, and the directory where they leave their pids."""
    place = tmp_path / "pids"
    place.mkdir()
    return [write(tmp_path / "wait.py", WAIT), place]


def pids(place, nproc):
    return [until(reader_of(place / str(r)), f"rank {r}", 20)[0] for r in range(nproc)]


def test_success(tmp_path):
    script = write(tmp_path / "good.py", "import sys; sys.exit(0)")
    done = run("-n", 3, script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(("how", "code"), [("sys.exit", 2), ("sys.exit", 255), ("os._exit", 143)])
def test_code_of_the_rank_that_failed(tmp_path, how, code):
    script = write(
        tmp_path / "bad.py",
        f"""
        import os, signal, sys
        if os.environ["RANK"] == "1":
            {how}({code})
        while True:
            signal.pause()
        """,
    )
    done = run("-n", 2, script)
    assert done.returncode == code
    assert "rank 1 of 2 (pid " in done.stderr
    assert re.search(rf"exited with code {code}\b", done.stderr)


def test_message_of_sys_exit_is_shown_once(tmp_path):
    script = write(tmp_path / "bad.py", 'import sys; sys.exit("no such model")')
    done = run(script)
    assert done.returncode == 1
    assert 'exited with code 1: "no such model"' in done.stderr
    assert done.stderr.splitlines().count("no such model") == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_signal_that_killed_the_rank(tmp_path, number):
    script = write(
        tmp_path / "killed.py",
        f"""
        import os, signal
        if os.environ["RANK"] == "0":
            os.kill(os.getpid(), {int(number)})
        while True:
            signal.pause()
        """,
    )
    done = run("-n", 2, script, cwd=tmp_path)
    assert done.returncode == 128 + number
    assert f"was killed by {number.name}" in done.stderr


def test_rank_that_interrupts_itself_did_not_succeed(tmp_path):
    done = run(write(tmp_path / "interrupted.py", "raise KeyboardInterrupt"))
    assert done.returncode == 130
    assert "KeyboardInterrupt" in done.stderr


def test_rank_that_failed_and_does_not_leave(tmp_path):
    # The failure is what it told; that the group had to kill it then is not the failure.
    script = write(
        tmp_path / "stuck.py",
        """
        import signal, sys, threading
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=threading.Event().wait).start()
        sys.exit(3)
        """,
    )
    done = run("-n", 2, "--shutdown-timeout", "0.3", script)
    assert done.returncode == 3, done.stderr


def test_ranks_get_the_signal_that_the_command_got(tmp_path):
    script = write(
        tmp_path / "tell.py",
        """
        import os, signal, sys
        def tell(number, frame):
            os.write(1, b"got %s\\n" % signal.Signals(number).name.encode())
            sys.exit(0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, tell)
        print("ready")
        while True:
            signal.pause()
        """,
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        with Watched("run", "-n", 2, script) as watched:
            watched.shows(b"[0] ready", b"[1] ready")
            watched.signal(number)
            assert watched.end() == 128 + number
        assert watched.out.count(b"got %s" % number.name.encode()) == 2, watched.err
        (said,) = (line for line in watched.err.decode().splitlines() if "[P412]" in line)
        assert re.fullmatch(
            rf"procession: tell.py was stopped by {number.name} after .* \[P412\]", said
        )


STUBBORN = """
    import os, pathlib, signal, sys
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os.write(1, b"I stay\\n"))
    pathlib.Path(sys.argv[1], os.environ["RANK"]).write_text(f"{os.getpid()}\\n")
    print("ready")
    while True:
        signal.pause()
"""


def test_second_signal_kills_stubborn_ranks_at_once(waiting, tmp_path):
    write(tmp_path / "wait.py", STUBBORN)
    with Watched("run", "-n", 2, "--shutdown-timeout", 900, *waiting) as watched:
        watched.shows(b"[0] ready", b"[1] ready")
        watched.signal(signal.SIGTERM)
        watched.shows(b"[0] I stay", b"[1] I stay")
        watched.signal(signal.SIGTERM)
        assert watched.end() == 143
        gone(pids(waiting[1], 2))
    assert b"Traceback" not in watched.err


def test_ignored_hangup_stays_ignored(waiting):
    nohup = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *PROCESSION]
    with Watched("run", "-n", 2, *waiting, program=nohup) as watched:
        ranks = pids(waiting[1], 2)
        watched.signal(signal.SIGHUP)
        watched.signal(signal.SIGTERM)
        assert watched.end() == 143
        gone(ranks)
    assert b"was stopped by SIGTERM" in watched.err
