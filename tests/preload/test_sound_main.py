"""`__main__`, the command line, options and streams: as `python PATH` has them."""

import pytest
from sides import plain, same, script, sides

from support import run_procession, write

SOURCE = '''"""What it does."""
import os
import sys
import pickle
import json
import threading
import multiprocessing
import io
import pathlib

from typing import NamedTuple

class Point(NamedTuple):
    x: int

class Other:
    def __init__(self, x):
        self.x = x

annotated: int = 3
main = sys.modules["__main__"]
seen = {
    "names": sorted(n for n in vars(main) if n.startswith("__")),
    "kinds": [type(main).__name__, type(__loader__).__name__, __loader__.name, __loader__.path,
              __spec__ and __spec__.name, str(__package__), __name__, __file__, __doc__,
              str(__cached__), type(__builtins__).__name__, str(__annotations__)],
    "is main": [vars(main) is globals(), sys.modules["__mp_main__"] is main],
    "pickled": [pickle.loads(pickle.dumps(Point(1))).x, pickle.loads(pickle.dumps(Other(2))).x,
                Other.__module__, pickle.dumps(Other(2)).hex()],
    "argv": sys.argv,
    "orig_argv": sys.orig_argv,
    "path": sys.path,
    "meta_path": [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path
                  if type(f).__name__ != "_Finder"],  # of breakpoints
    "flags": str(sys.flags),
    "options": [sys.warnoptions, sys._xoptions, sys.executable, sys.prefix],
    "limits": [sys.getrecursionlimit(), sys.getswitchinterval(), sys.flags.optimize],
    "hooks": [h is o for h, o in ((sys.excepthook, sys.__excepthook__),
              (sys.unraisablehook, sys.__unraisablehook__),
              (sys.displayhook, sys.__displayhook__), (sys.breakpointhook, sys.__breakpointhook__),
              (threading.excepthook, threading.__excepthook__))],
    "tracing": [sys.gettrace(), sys.getprofile()],
    "threads": [threading.active_count(), threading.main_thread().name,
                threading.main_thread() is threading.current_thread(),
                threading.main_thread().ident == threading.get_ident(),
                threading.main_thread().native_id == threading.get_native_id() == os.getpid()],
    "directory": [os.getcwd(), oct(os.umask(0o22)), multiprocessing.process.ORIGINAL_DIR,
                  str(pathlib.Path.cwd())],
}
'''

STREAMS = """
import io
import json
import logging
import os
import sys

NAMES = "stdin", "stdout", "stderr"
seen = {"same": [getattr(sys, n) is getattr(sys, f"__{n}__") for n in NAMES]}
for name in NAMES:
    f = getattr(sys, name)
    seen[name] = [f.name, f.encoding, f.errors, f.mode, f.fileno(), f.newlines, f.isatty()]
    seen[f"{name} buffering"] = [f.line_buffering, f.write_through, type(f.buffer).__name__]
seen["descriptors"] = [f for f in sorted(map(int, os.listdir("/proc/self/fd"))) if f < 60][:-1]
os.write(1, b"a")
print("b", end="")
os.write(1, b"c")
sys.stdout.write("d")
sys.stdout.buffer.write(b"e")
os.write(1, b"f\\n")
"""


def test_main_and_the_interpreter(tmp_path):
    seen = same(sides(tmp_path, SOURCE, args=["--a", "b"], nproc=1, cwd=tmp_path)).seen
    alone = plain(tmp_path / "main.py", "--a", "b", cwd=tmp_path).seen
    assert [w for w in seen.pop("orig_argv") if w != "-B"] == alone.pop("orig_argv")
    assert seen == alone


def test_a_module(tmp_path):
    seen = same(sides(tmp_path, SOURCE, args=["b"], nproc=1, module=True)).seen
    alone = plain("-m", "main", "b", cwd=tmp_path).seen
    assert [w for w in seen.pop("orig_argv") if w != "-B"] == alone.pop("orig_argv")
    assert seen == alone


def test_streams(tmp_path):
    found = sides(tmp_path, STREAMS)
    assert same(found).out == "abcdef"
    alone = plain(tmp_path / "main.py", flags=["-u"], env={"PATH": ""}).seen
    for name in ("same", "stdout", "stderr", "stdout buffering"):
        assert found.cold[0].seen[name] == alone[name]


OPTIONS = {
    "-O": ["-O"],
    "-OO -b": ["-OO", "-b"],
    "-X dev": ["-X", "dev"],
    "-W error": ["-W", "error::ImportWarning", "-W", "ignore::UserWarning"],
    "-X": ["-X", "utf8=0", "-X", "faulthandler", "-X", "mine"],
    "-I": ["-I"],
    "-E -s": ["-E", "-s"],
}
FLAGS = """
import json
import logging
import sys
import warnings

seen = {"flags": str(sys.flags), "options": [sys.warnoptions, sys._xoptions], "path": sys.path,
        "filters": [str(f) for f in warnings.filters], "debug": __debug__,
        "docs": logging.basicConfig.__doc__ is None,
        "encodings": [sys.getfilesystemencoding(), sys.stdout.encoding, sys.stdout.errors]}
"""


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_the_interpreter(tmp_path, name):
    path = script(tmp_path, FLAGS)
    told = []
    for preload in ("none", "auto"):
        words = ["procession", "run", "-n", "1", "--preload", preload, path]
        done = plain("-m", *words, flags=OPTIONS[name])
        assert done.early is (preload == "auto")
        told.append((done.seen, done.out))
    assert told[0] == told[1]
    alone = plain(path, flags=OPTIONS[name]).seen
    assert {**told[0][0], "path": []} == {**alone, "path": []}
    if name != "-I":
        assert told[0][0]["path"] == alone["path"]


def test_plain_texts_stay_in_order(tmp_path):
    """What a module kept of the streams as it was imported is the rank's stream."""
    write(tmp_path / "early.py", "import sys\nout, err = sys.stdout, sys.stderr\n")
    source = "import sys, early\nprint('a')\nearly.out.write('b\\n')\nprint('c')\n"
    source += "print(early.out is sys.stdout, early.err is sys.__stderr__, file=early.err)"
    path = write(tmp_path / "main.py", source)
    for preload in ("none", "early"):
        words = ["run", "-n", "1", "--preload", preload, path]
        done = run_procession(*words, env={"PYTHONPATH": str(tmp_path), "PATH": ""})
        assert done.stdout == "a\nb\nc\n", done.stderr
