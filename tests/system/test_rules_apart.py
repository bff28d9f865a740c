"""The agent runs the rules: ranks share their fate whatever their launcher is doing."""

import os
import signal
import subprocess
import sys

import pytest

import procession
from procession import GroupFailed
from seams.system import state_of
from support import OBEDIENT, alive, until

LAUNCHER = """
import ctypes, os, sys, time
from pathlib import Path
import procession

def work(place):
    rank = os.environ["RANK"]
    (Path(place) / rank).write_text(str(os.getpid()))
    while rank != "2" or not (Path(place) / "die").exists():
        time.sleep(0.005)
    os.kill(os.getpid(), 9)

if __name__ == "__main__":
    place, how = sys.argv[1:]
    group = procession.start(work, args=(place,), nproc=4)
    (Path(place) / "started").touch()
    if how == "in native code":
        ctypes.PyDLL(None).usleep(2**31 - 1)  # which keeps the interpreter's lock
    try:
        group.wait()
    except procession.GroupFailed as e:
        print([end.rank for end in e.failures])
"""


def test_the_others_are_ended_while_the_launcher_is_in_native_code(tmp_path):
    launched = launch(tmp_path, "in native code")
    ranks_end(tmp_path)
    assert launched.poll() is None
    launched.kill()
    launched.communicate()


def test_the_others_are_ended_while_the_launcher_is_stopped(tmp_path):
    """It says what happened when it goes on."""
    launched = launch(tmp_path, "waiting")
    launched.send_signal(signal.SIGSTOP)
    ranks_end(tmp_path)
    launched.send_signal(signal.SIGCONT)
    assert launched.communicate() == ("[2]\n", None)


def launch(place, how):
    script = place / "launcher.py"
    script.write_text(LAUNCHER)
    words = [sys.executable, str(script), str(place), how]
    launched = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    until((place / "started").exists)
    return launched


def ranks_end(place):
    files = [place / str(rank) for rank in range(4)]
    until(lambda: all(file.exists() and file.read_text() for file in files))
    pids = [int(file.read_text()) for file in files]
    (place / "die").touch()
    until(lambda: not any(map(alive, pids)), "the end of all ranks")


IMPORTS = """
import os, time
from pathlib import Path
Path(os.environ["PLACE"]).touch()
time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_does_not_wait_for_an_import_that_hangs(tmp_path, number):
    (tmp_path / "hangs_at_import.py").write_text(IMPORTS)
    (tmp_path / "script.py").write_text("print('never')")
    words = ["-m", "procession", "run", "-n", "2", "--preload", "hangs_at_import", "script.py"]
    env = {**os.environ, "PLACE": str(tmp_path / "importing"), "PYTHONPATH": str(tmp_path)}
    launched = subprocess.Popen([sys.executable, *words], cwd=tmp_path, env=env)
    until((tmp_path / "importing").exists)
    until(lambda: state_of(launched.pid).catches(signal.SIGTERM), "the command's handlers")
    launched.send_signal(number)
    assert launched.wait(30) == 128 + number


def give(size):
    return b"x" * size


def fail(size):
    raise ValueError("x" * size)


@pytest.mark.parametrize("size", [1, 60_000, 70_000, 30_000_000])
@pytest.mark.parametrize("start_method", ["forkserver", "spawn", "fork"])
def test_values_of_any_size(size, start_method):
    options = {"args": (size,), "nproc": 3, "start_method": start_method, "stop": OBEDIENT}
    assert procession.run(give, **options) == [b"x" * size] * 3
    with pytest.raises(GroupFailed) as caught:
        procession.run(fail, **options)
    assert str(caught.value.__cause__) == "x" * size


def fill_files(size):
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    return give(size)


def test_a_value_for_which_there_can_be_no_file():
    assert procession.run(fill_files, args=(3_000_000,), nproc=2) == [b"x" * 3_000_000] * 2
