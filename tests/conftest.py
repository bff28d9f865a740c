"""Every test starts clean and leaves nothing: processes, threads, descriptors, handlers, files."""

import faulthandler
import importlib.util
import os
import signal
import tempfile
import threading
import time
import uuid

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings

import procession.forkserver
from chaos import processes
from chaos.processes import alive, command_line, descriptors  # noqa: F401
from seams.control import dead_sockets

# A test run in the background has these ignored, and so would have all that it starts.
for number, action in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, action)

# On a busy machine, inputs are made slowly: that says nothing about what is tested.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

PATIENCE = 10.0  # seconds that what is on its way out may take
START_PATIENCE = 40.0  # seconds until new interpreters, all at once, are in their programs


def until(condition, what="the condition", patience=PATIENCE):
    """Wait until `condition()` is true; fails the test after `patience` seconds."""
    deadline = time.monotonic() + patience
    pause = 0.0005
    while True:
        if result := condition():
            return result
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come true within {patience} s")
        time.sleep(pause)  # between two looks, not instead of one
        pause = min(pause * 1.5, 0.05)


def marked(mark=None):
    """Give the processes, but for this one, that have the variable NAME=VALUE; no zombies.

    None: the variable that all processes of this test have.
    """
    name, _, value = (mark or f"PROCESSION_TEST={os.environ['PROCESSION_TEST']}").partition("=")
    return processes.marked(value, name)


def handlers():
    return {n: signal.getsignal(n) for n in signal.valid_signals() if n not in (9, 19)}


def pytest_runtest_setup(item):
    """Skip what needs torch where there is none.

    It is not imported: a test process that holds torch makes each fork behind it slow.
    """
    if item.get_closest_marker("torch") and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")


@pytest.fixture(autouse=True)
def nothing_left(tmp_path_factory, monkeypatch, request):
    """Fail a test that leaves anything behind."""
    if limit := request.node.get_closest_marker("timeout"):
        # Stacks are written shortly before it, not sooner: to read them may crash who is at work.
        stderr = request.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(limit.args[0] - 10, file=stderr)
    if request.node.get_closest_marker("may_leave"):
        yield
        return
    mark = f"PROCESSION_TEST={uuid.uuid4().hex}"
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setenv(*mark.split("="))
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    runtime = tmp_path_factory.mktemp("runtime")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", f"{scratch}-inductor")
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    fds, threads, before = descriptors(), set(threading.enumerate()), handlers()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    procession.forkserver.close()
    deadline = time.monotonic() + PATIENCE
    while True:
        left = [f"process {p}: {command_line(p)}" for p in marked(mark)]
        left += [f"thread {t.name}" for t in threading.enumerate() if t not in threads]
        now = descriptors()
        left += [
            f"descriptor {fd}: {now[fd]}"
            for fd in now
            if fd not in fds and not now[fd].startswith(("/dev/urandom", "/dev/null"))
        ]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    left += [f"handler of signal {n}" for n, h in handlers().items() if h != before[n]]
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    left += [f"blocked signal {n}" for n in blocked - mask]
    left += [f"temporary file {name}" for name in os.listdir(scratch)]
    dead_sockets(remove=True)  # of launchers that the test has killed
    for _, _, names in os.walk(runtime):  # it keeps its own directory, empty
        left += [f"in the runtime directory: {name}" for name in names]
    assert not left, "left behind: " + "; ".join(left)


@pytest.fixture(autouse=True)
def no_launcher_around(monkeypatch, request):
    """Take away what a launcher around the test run may have set.

    What the command says of OMP_NUM_THREADS is the subject of test_cli_place alone.
    """
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    if request.path.parent.name == "cli" and request.path.stem != "test_cli_place":
        monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def hello(tmp_path):
    """Give a script that writes a line to each stream."""
    path = tmp_path / "hello.py"
    path.write_text(
        'import os, sys\nprint("hello from", os.environ["RANK"])\n'
        'print("problem of", os.environ["RANK"], file=sys.stderr)\n'
    )
    return path


@pytest.fixture
def console():
    """Give a console that leads to a pipe."""
    from following import piped

    with piped() as (console, viewer):
        console.viewer = viewer
        yield console
