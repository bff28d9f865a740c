"""Facilities of the system that are refused (a container's filter) or missing: a way, or a name."""

import os
import platform
import signal

import pytest

from support import PYTHON, Launcher, gone, marked, run_program, until, write

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86-64")
EPERM, ENOSYS = 1, 38
NUMBERS = {
    "pidfd_open": 434,
    "pidfd_send_signal": 424,
    "waitid": 247,
    "memfd_create": 319,
    "eventfd": 290,
    "prctl": 157,
}
DENY = """
    import ctypes, os, struct, sys
    number, error = int(sys.argv[1]), int(sys.argv[2])
    libc = ctypes.CDLL(None, use_errno=True)
    program = b"".join(struct.pack("HBBI", *each) for each in (
        (0x20, 0, 0, 0), (0x15, 1, 0, number),  # the number of the call
        (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | error)))  # ALLOW, ERRNO
    held = ctypes.create_string_buffer(program)
    class Filter(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    made = Filter(4, ctypes.addressof(held))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(made), 0, 0):
        sys.exit("no filters here")
    os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""
WORK = """
    import os, signal, time, procession, procession.forkserver
    from procession import GroupFailed, Stop

    def two():
        return os.getpid()

    def family():
        if not os.fork():
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open(f"daemon{os.environ['RANK']}", "w").write(str(os.getpid()))
            while True:
                time.sleep(1)
        while not os.path.exists("daemon0") or not os.path.exists("daemon1"):
            time.sleep(0.01)
        if os.environ["RANK"] == "1":
            raise ValueError("no more")
        while True:
            signal.pause()  # which returns when stacks are taken

    assert len(procession.run(two, nproc=2)) == 2
    assert procession.run(["true"], nproc=2) == [None, None]
    assert len(procession.run(two, nproc=2, start_method="fork")) == 2
    try:
        procession.run(family, nproc=2, stop=Stop(grace=0.5))
    except GroupFailed as e:
        assert e.cause.rank == 1 and "no more" in str(e), e
        assert e.ended[0].exit.signal == signal.SIGTERM, e
    daemons = [int(open(f"daemon{rank}").read()) for rank in range(2)]
    assert not any(os.path.exists(f"/proc/{pid}") for pid in daemons)
    procession.forkserver.close()
    print("well")
"""


def denied(tmp_path, facility, error, script, *words):
    deny = write(tmp_path / "deny.py", DENY)
    done = run_program(PYTHON, deny, NUMBERS[facility], error, script, *words, cwd=tmp_path)
    if "no filters here" in done.stderr:
        pytest.skip("no filters here")
    return done


@pytest.mark.parametrize("error", [EPERM, ENOSYS])
@pytest.mark.parametrize("facility", ["pidfd_open", "pidfd_send_signal", "waitid"])
def test_there_is_another_way(tmp_path, facility, error):
    done = denied(tmp_path, facility, error, write(tmp_path / "work.py", WORK))
    assert done.stdout == "well\n", done.stderr


LINES = """
    import os, sys, procession

    def two():
        return os.getpid()

    for program, method in ((["true"], "forkserver"), (two, "forkserver"), (two, "fork")):
        try:
            procession.run(program, nproc=2, start_method=method)
        except (procession.StartFailed, procession.SpecError) as e:
            print(str(e).count("\\n"), sys.argv[1] in str(e), "procession doctor" in str(e))
"""


@pytest.mark.parametrize("facility", ["memfd_create", "eventfd", "prctl"])
def test_a_refusal_is_one_line(tmp_path, facility):
    script = write(tmp_path / "work.py", LINES)
    done = denied(tmp_path, facility, EPERM, script, facility)
    assert done.stdout == "0 True True\n" * 3, done.stdout + done.stderr


def test_the_command_says_it_in_one_line_too(tmp_path, monkeypatch):
    """Its agent is started before all else, and has said so before it is asked for ranks."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # or a line would say how many there are
    entry = "from procession.cli import command; command()"
    script = write(tmp_path / "main.py", entry)
    done = denied(tmp_path, "prctl", EPERM, script, "run", "-n", "2", "true")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "prctl(PR_SET_CHILD_SUBREAPER) is missing or refused here" in line


def test_killed_launcher_without_pidfds(tmp_path):
    """The agent hears of it by its parent-death signal, and by its socket."""
    deny = write(tmp_path / "deny.py", DENY)
    script = write(
        tmp_path / "work.py",
        """
        import os, procession
        group = procession.start(["sleep", "1000"], nproc=2)
        # Somebody holds the agent's socket open.
        if not os.fork():
            os.setsid()
            print("holds", os.getpid(), flush=True)
            os.execlp("sleep", "sleep", "1000")
        group.wait()
        """,
    )
    with Launcher(deny, NUMBERS["pidfd_open"], EPERM, script) as launcher:
        holder = int(launcher.said("holds"))
        launcher.signal(signal.SIGKILL)
        until(lambda: marked() == [holder], "the end of the others")
        os.kill(holder, signal.SIGKILL)
        gone([holder])


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
@pytest.mark.parametrize(
    ("what", "before", "said"),
    [
        (["-m"], "mount -t tmpfs none /proc &&", "/proc is missing"),
        (["-p", "-f"], "", "/proc of this namespace of pids (unshare --mount-proc) is missing"),
    ],
)
def test_without_proc_or_with_that_of_another_namespace(tmp_path, what, before, said, method):
    if os.geteuid():
        pytest.skip("only root may hide /proc")
    source = f'import os, procession\nprocession.run(os.getpid, nproc=2, start_method="{method}")\n'
    script = write(tmp_path / "work.py", source)
    done = run_program("unshare", *what, "sh", "-c", f"{before} exec {PYTHON} {script}")
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"not here: {done.stderr}")
    assert done.returncode == 1
    assert said in done.stderr
    assert "procession doctor" in done.stderr
