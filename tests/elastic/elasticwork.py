"""Functions that ranks of elastic tests import by name."""

import atexit
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

SEEN_AT_IMPORT = os.environ.get("SEEN_AT_IMPORT")


def give(*args):
    return args


def add(a, b, c):
    return a + b + c


def variables(*names):
    return {name: os.environ.get(name) for name in names}


def who():
    """Tell how `multiprocessing` knows this process and its parent."""
    import multiprocessing

    me, parent = multiprocessing.current_process(), multiprocessing.parent_process()
    return me.name, me.daemon, parent.name, parent.pid, parent.is_alive()


def seen_at_import():
    return SEEN_AT_IMPORT


def say(out, err):
    print(out)
    print(err, file=sys.stderr)


def return_one_after_the_other(place):
    """Rank 0 returns first; as it exits, it writes down whether the other one had returned."""
    place = Path(place)
    if os.environ["RANK"] == "0":
        atexit.register(
            lambda: (place / "as it exits").write_text(str((place / "other returned").exists()))
        )
        (place / "returned").touch()
        return
    while not (place / "returned").exists():
        time.sleep(0.001)
    time.sleep(0.2)  # long enough for an exit
    (place / "other returned").touch()


def block():
    time.sleep(120)


def fail_on(failing, what):
    """Fail in rank `failing` only; the others go on."""
    if os.environ["RANK"] != failing:
        time.sleep(120)
    what()


def fail():
    raise ValueError("no such batch")


def leave():
    os._exit(0)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def quit_with(code):
    sys.exit(code)


def interrupted():
    raise KeyboardInterrupt


def give_unpicklable():
    return {"a lock": __import__("threading").Lock()}


def die_in_value():
    return _Deadly()


class _Deadly:
    """A large value whose process is killed while it is being written."""

    def __reduce__(self):
        # Without room for a file, the value goes over the channel, where its writer has to wait.
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        threading.Thread(target=_die_in_a_large_write, daemon=True).start()
        return bytes, (b"x" * 100_000_000,)


def _die_in_a_large_write():
    while True:
        # Number and arguments of the system call in which the main thread is.
        words = Path(f"/proc/self/task/{os.getpid()}/syscall").read_text().split()
        if words[0] == "1" and int(words[3], 16) > 1 << 20:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0)


def leave_child(path):
    """Start a child that ignores SIGTERM, write its pid, and go on."""
    code = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(99)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    child.stdout.readline()
    Path(path).write_text(f"{child.pid}\n")
    time.sleep(120)


def obey_slowly(path):
    """Note SIGTERM and go on."""
    signal.signal(signal.SIGTERM, lambda *_: Path(path + ".term").touch())
    Path(path).touch()
    while True:
        time.sleep(120)
