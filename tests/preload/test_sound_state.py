"""What a process carries besides its modules: filters, handlers, signals, locale, loops, times."""

import os

import pytest
from sides import plain, ranks, same, script, sides

import procession
from support import run_python, write

STATE = """
import asyncio
import concurrent.futures
import contextvars
import decimal
import faulthandler
import gc
import json
import locale
import logging
import logging.handlers
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import warnings
import unittest.mock

cpu = time.process_time()
used = resource.getrusage(resource.RUSAGE_SELF)
# The one by which stacks are asked for has a handler.
handled = {n: signal.getsignal(n) for n in signal.valid_signals() - {signal.SIGWINCH, 50}}
SIGNALS = ("SigBlk", "SigIgn", "SigPnd", "ShdPnd", "Threads", "Seccomp", "NoNewPrivs", "Umask")


async def doubled(n):
    await asyncio.sleep(0)
    return 2 * n


async def child():
    made = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(5)", stdout=-1)
    return (await made.communicate())[0].decode()

with open("/proc/self/status") as f:
    status = [line.split() for line in f if line.startswith(SIGNALS)]
began = logging._startTime  # in nanoseconds since Python 3.13
began = began / 1e9 if isinstance(began, int) else began
times = {"cpu": cpu < 1, "usage": used.ru_utime + used.ru_stime < 1,
         "logging": 0 <= time.time() - began < 5}
seen = {
    "status": status,
    "times": times,
    "signals": [getattr(h, "__name__", str(h)) for h in handled.values()],
    "wakeup": signal.set_wakeup_fd(-1),
    "timer": signal.getitimer(signal.ITIMER_REAL),
    "collector": [gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.callbacks)],
    "locale": [locale.getlocale(), locale.setlocale(locale.LC_ALL), locale.getpreferredencoding()],
    "decimal": [str(decimal.getcontext()), str(decimal.DefaultContext)],
    "context": len(contextvars.Context()) + len(list(threading.enumerate())),
    "policy": str(asyncio.events._event_loop_policy),
    "loop": [asyncio.run(doubled(2)), asyncio.run(child())],
    "filters": [str(f) for f in warnings.filters],
    "logging": [str(logging.root), len(logging.root.handlers), logging.lastResort.level,
                logging.raiseExceptions, sorted(logging.root.manager.loggerDict)],
    "faulthandler": faulthandler.is_enabled(),
    "temporary": [tempfile.tempdir, tempfile.gettempdir()],
    "environment": {n: v for n, v in os.environ.items()
                    if not n.startswith(("TORCHELASTIC", "PROCESSION", "MASTER_"))},
    "descriptors": len(os.listdir("/proc/self/fd")),
}
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    seen["pool"] = list(pool.map(abs, (-1, -2)))
logging.basicConfig(format="%(levelname)s %(message)s")
logging.warning("seen")
warnings.warn("own")
"""
OF_A_RANK = ("RANK", "LOCAL_RANK", "ROLE_RANK")


def test_the_state_of_a_process(tmp_path):
    found = sides(tmp_path, STATE)
    for rank in found.all:
        for name in OF_A_RANK:
            del rank.seen["environment"][name]
    seen = same(found).seen
    assert "WARNING seen" in found.auto[0].err and "UserWarning: own" in found.auto[0].err
    assert all(seen["times"].values())
    alone = plain(tmp_path / "main.py").seen
    for name in ("collector", "locale", "decimal", "policy", "loop", "filters", "logging", "wakeup",
                 "signals", "temporary", "timer"):  # fmt: skip
        assert seen[name] == alone[name], name


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONUTF8": "1", "PYTHONIOENCODING": "latin-1:replace"},
        {"LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "5", "PYTHONWARNINGS": "error"},
    ],
    ids=lambda e: "-".join(e),
)
def test_variables_of_the_interpreter(tmp_path, env):
    source = """
import json, locale, logging, os, sys, time, tempfile
seen = {"locale": [locale.getlocale(), locale.getpreferredencoding(), locale.setlocale(0)],
        "encodings": [sys.getfilesystemencoding(), sys.stdout.encoding, sys.stdout.errors,
                      sys.stdin.encoding, sys.stderr.errors],
        "zone": time.tzname, "hash": hash("a") if "PYTHONHASHSEED" in os.environ else 0,
        "options": [sys.flags.utf8_mode, sys.warnoptions, sys.flags.hash_randomization]}
"""
    seen = same(sides(tmp_path, source, nproc=1, env=env)).seen
    assert seen == plain(tmp_path / "main.py", env={**os.environ, **env}).seen


ORDER = """
import atexit
import json
import logging
import concurrent.futures.thread
import multiprocessing.util
import weakref

class Thing:
    pass

thing = Thing()
weakref.finalize(thing, print, "finalized")
atexit.register(print, "first")
atexit.register(print, "second")
multiprocessing.util.Finalize(None, print, ("of multiprocessing",), exitpriority=1)
"""


def test_the_order_of_exit_handlers(tmp_path):
    told = []
    source = ORDER + "import sys\nprint('procession.worker.renewal' in sys.modules)"
    path = write(tmp_path / "main.py", source)
    for preload in (None, "auto"):
        logs = procession.Logs(dir=tmp_path / "logs", redirect=procession.Std.ALL)
        with procession.start(
            procession.Script(str(path)), nproc=1, logs=logs, preload=preload
        ) as group:
            (end,) = group.wait().ranks
        with open(end.stdout_log) as f:
            told.append(f.read().split("\n"))
    assert [lines.pop(0) for lines in told] == ["False", "True"]
    assert told[0] == told[1]
    assert told[0] == run_python(path).stdout.split("\n")[1:]
    assert sorted(told[0]) == ["", "finalized", "first", "of multiprocessing", "second"]


def test_warnings_are_shown_as_often(tmp_path):
    """Of a module that warns as it is imported; one is about who imports it."""
    write(tmp_path / "lib" / "loud.py", "import warnings\nwarnings.warn('loud')\n")
    told = "import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=2)\n"
    write(tmp_path / "lib" / "told.py", told)
    env = {"PYTHONPATH": str(tmp_path / "lib")}
    source = "import {0}\nimport warnings\nimport importlib, sys\nseen = {{}}\nimport {0}\n"
    source += "del sys.modules['{0}']\nimport {0}\nseen['n'] = len({0}.__warningregistry__)"
    for name, expected in (("loud", True), ("told", False)):
        path = script(tmp_path, source.format(name).replace("told.__warn", "__warn"))
        program = procession.Script(str(path))
        (cold,) = ranks(program, tmp_path, nproc=1, env=env, preload=None)
        (early,) = ranks(program, tmp_path, nproc=1, env=env, preload=[name])
        assert early.early is expected
        assert (early.seen, early.err) == (cold.seen, cold.err)
        assert "Warning: " in cold.err


def test_warnings_that_are_errors(tmp_path):
    """What fails as it is imported early fails in the rank, at its line."""
    write(tmp_path / "lib" / "loud.py", "import warnings\nwarnings.warn('loud')\n")
    env = {"PYTHONPATH": str(tmp_path / "lib"), "PYTHONWARNINGS": "error"}
    source = "try:\n    import loud\nexcept UserWarning as e:\n    import traceback\n"
    source += "    seen = {'e': traceback.format_exc()}\n"
    program = procession.Script(str(script(tmp_path, source)))
    (cold,) = ranks(program, tmp_path, nproc=1, env=env, preload=None)
    (early,) = ranks(program, tmp_path, nproc=1, env=env, preload=["json", "loud"])
    assert early.seen == cold.seen
    assert "main.py" in early.seen["e"]


@pytest.mark.parametrize(
    "call", ["disable()", "set_threshold(7, 8, 9)", "set_threshold(0)", "collect()"]
)
def test_a_module_that_sets_the_collector(tmp_path, call):
    """Imports are made without collections, but what they set is set."""
    write(tmp_path / "lib" / "tidy.py", f"import gc\ngc.{call}\n")
    source = "import tidy\nimport gc\nseen = {'is': [gc.isenabled(), gc.get_threshold()]}"
    program = procession.Script(str(script(tmp_path, source)))
    env = {"PYTHONPATH": str(tmp_path / "lib")}
    (cold,) = ranks(program, tmp_path, nproc=1, env=env, preload=None)
    (early,) = ranks(program, tmp_path, nproc=1, env=env, preload=["tidy"])
    assert early.early
    assert early.seen == cold.seen
