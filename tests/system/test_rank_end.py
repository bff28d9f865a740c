"""How a rank's interpreter ends: as that of `python SCRIPT` does, as far as the program can see."""

import os
import subprocess
import sys

import pytest

import procession
from procession import Logs, Std
from support import run_procession, run_program, write

# tests/preload/test_sound_end.py has what is held at the end; here is what is seen of it.
LAST_WORDS = {
    "threads are waited for": """
        import threading
        go = threading.Event()
        def work():
            go.wait(); print("thread")
        threading.Thread(target=work).start()
        import atexit
        atexit.register(print, "handler")
        go.set()
        """,
    "daemon threads are not": """
        import threading
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        class Thing:
            def __del__(self, print=print): print("gone")
        thing = Thing()
        """,
    "an exit handler that raises": """
        import atexit
        atexit.register(print, "first registered")
        atexit.register(lambda: 1 / 0)
        """,
    "a destructor that raises": """
        class Thing:
            def __del__(self): raise ValueError("too late")
        thing = Thing()
        """,
    "the C library's buffers": """
        import ctypes
        ctypes.CDLL(None).printf(b"from C")
        """,
    "a tuple": "import sys; sys.exit((1, 2))",
    "an exit code from a handler": "import atexit, sys; atexit.register(lambda: sys.exit(5))",
    "_exit in a handler": "import atexit, os; atexit.register(os._exit, 9)",
    "closed streams": "import sys; sys.stdout.close()",
    "no streams": "import sys; sys.stdout = sys.stderr = None",
    "sys.modules in a handler": """
        import atexit, sys
        def last():
            print(sys.modules["__main__"].__name__, "os" in sys.modules)
        atexit.register(last)
        """,
}


def ended(command, place, **options):
    place.mkdir()
    done = run_program(*command, place, timeout=60, **options)
    files = {n: (place / n).read_bytes() for n in os.listdir(place)}
    return done.stdout, done.stderr, done.returncode, files


@pytest.mark.parametrize("name", LAST_WORDS)
def test_the_end(tmp_path, name):
    script = write(tmp_path / "main.py", LAST_WORDS[name])
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}  # what ranks have
    cold = ended([sys.executable, script], tmp_path / "cold", env=env)
    program = procession.Script(str(script), (str(tmp_path / "rank"),))
    (tmp_path / "rank").mkdir()
    logs = Logs(dir=tmp_path / "logs", redirect=Std.ALL)
    with procession.start(program, logs=logs) as group:
        try:
            end = group.wait().ranks[0]
        except procession.GroupFailed as failed:
            end = failed.cause
    place = tmp_path / "rank"
    files = {n: (place / n).read_bytes() for n in os.listdir(place)}
    with open(end.stdout_log) as out, open(end.stderr_log) as err:
        mine = out.read(), err.read(), end.exit.shell_code, files
    code = cold[2] if cold[2] >= 0 else 128 - cold[2]
    # What the collector finds in cycles has no order that anybody could rely on.
    assert sorted(mine[0].splitlines()) == sorted(cold[0].splitlines())
    assert mine[2:] == (code, cold[3])
    if "Traceback" not in cold[1]:
        assert mine[1] == cold[1]
    else:
        assert mine[1].splitlines()[-1] == cold[1].splitlines()[-1]


NATIVE = "native handler"


def end_with(library, tmp_path):
    """Run two ranks that load a native library with an exit handler; gives what they print."""
    source = write(
        tmp_path / "late.c",
        f"""
        #include <stdio.h>
        static void last(void) {{ fputs("{NATIVE}\\n", stdout); }}
        int atexit(void (*)(void));
        void set(void) {{ atexit(last); }}
        """,
    )
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    except FileNotFoundError:
        pytest.skip("no C compiler here")
    script = write(
        tmp_path / "main.py",
        f"import ctypes, json; ctypes.CDLL({str(library)!r}).set(); print('main')",
    )
    return sorted(run_procession("run", "-n", "2", script).stdout.splitlines())


def test_a_library_that_is_not_known_is_given_the_interpreters_end(tmp_path):
    """It may have exit handlers of its own, which only the C library runs."""
    said = end_with(tmp_path / "late.so", tmp_path)
    assert said == ["[0] main", f"[0] {NATIVE}", "[1] main", f"[1] {NATIVE}"]


def test_what_looks_up_names_for_the_c_library_does_not_keep_a_rank(tmp_path):
    """Whoever opens a connection by name has it loaded, and has no part in it."""
    assert end_with(tmp_path / "libnss_late.so.2", tmp_path) == ["[0] main", "[1] main"]
