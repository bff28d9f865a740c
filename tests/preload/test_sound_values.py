"""What modules hold as soon as they are imported: nothing of one process but what is renewed.

If this fails for a new version of a package, `worker/renewal.py` has to make the new thing anew in
each rank, or `preload/safe.py` must not list the module.
"""

import importlib.util
import json
import os

import pytest

from seams.preload import safe
from support import run_python, write

# What is renewed (`worker/renewal.py`), belongs to the interpreter, or looks at the process's id.
KNOWN = {
    "generator random._inst",  # seeds itself in a fork
    "generator secrets._sysrand",  # has no seed
    "generator numpy.random.mtrand._rand",
    "generator torch.default_generator",
    "generator sympy.core.random.rng",
    "generator sympy.core.random._assumptions_rng",
    "generator sympy.Dummy._prng",
    "generator joblib._multiprocessing_helpers._rand._rng",  # looks at the next one
    "pid joblib._multiprocessing_helpers._rand._rng_pid",
    "pid filelock._api._FORK_STATE.pid",
    "pid fsspec.AbstractFileSystem._pid",
    "time logging._startTime",
    "directory multiprocessing.process.ORIGINAL_DIR",  # imports happen in the ranks' directory
    "directory rich._IMPORT_CWD",
    "directory torch._dynamo.config._config['debug_dir_root'].default",
    "directory torch._inductor.config._config['xpu.cutlass_dir'].default",
}
STANDARD = [
    "asyncio",
    "concurrent.futures",
    "email.mime.multipart",
    "http.cookiejar",
    "http.server",
    "imaplib",
    "logging",
    "logging.handlers",
    "mailbox",
    "multiprocessing.pool",
    "multiprocessing.synchronize",
    "random",
    "secrets",
    "shelve",
    "smtplib",
    "socketserver",
    "sqlite3",
    "ssl",
    "tarfile",
    "tempfile",
    "unittest",
    "urllib.request",
    "uuid",
    "xmlrpc.client",
    "zipfile",
]
DEEPER = [
    "scipy.stats",
    "sklearn.datasets",
    "sklearn.linear_model",
    "torch.distributed",
    "torch._dynamo",
    "torch._inductor.config",
    "torch.distributed.fsdp",
    "torch.utils.data",
]

PROBE = """
import importlib, json, os, random, sys, threading, time, types

begin = time.time(), time.monotonic(), time.perf_counter()
here, pid, main = os.getcwd(), os.getpid(), sys.modules["__main__"]
for name in sys.argv[1:]:
    importlib.import_module(name)
end = time.time(), time.monotonic(), time.perf_counter()
kinds = [random.Random]
if "numpy.random" in sys.modules:
    from numpy import random as r
    kinds += r.Generator, r.RandomState, r.BitGenerator, r.SeedSequence
if "torch" in sys.modules:
    kinds += [sys.modules["torch"].Generator]
kinds = tuple(kinds)
streams = [id(s) for s in (sys.stdin, sys.stdout, sys.stderr)]
seen, found = {id(threading.main_thread())}, []  # which is renewed


def what(value, path):
    kind = type(value)
    if kind is int and value == pid and path.endswith("id"):
        return "pid"
    if kind is float and value % 1 and any(a <= value <= b for a, b in zip(begin, end)):
        return "time"
    if kind is int and begin[0] * 1e9 <= value <= end[0] * 1e9:
        return "time"
    if kind is str and here in value and len(value) < 300:
        return "directory"
    if value is main:
        return "main"
    if issubclass(kind, kinds):
        return "generator"
    return ""


def inside(value):
    kind = type(value)
    if issubclass(kind, types.ModuleType):
        return
    if kind is dict:
        for key, each in list(value.items())[:3000]:
            yield f"[{key!r}]", each
    elif kind in (list, tuple, set, frozenset):
        for i, each in enumerate(list(value)[:300]):
            yield f"[{i}]", each
    elif kind is types.FunctionType:
        yield ".__defaults__", value.__defaults__
        yield ".__kwdefaults__", value.__kwdefaults__
    else:
        try:
            yield from [(f".{name}", each) for name, each in list(vars(value).items())]
        except TypeError:
            pass


def look(value, path, depth):
    if id(value) in seen or depth > 4:
        return
    seen.add(id(value))
    if told := what(value, path):
        found.append(f"{told} {path}")
    for way, each in inside(value):
        look(each, path + way, depth + 1)


for name in ("__main__", "__mp_main__", "sys", "linecache"):
    sys.modules.pop(name, None)
for name, module in sorted(sys.modules.items()):
    if type(module) is types.ModuleType:
        for key, value in list(vars(module).items()):
            if key not in ("__builtins__", "__spec__", "__path__"):
                look(value, f"{name}.{key}", 0)
print(json.dumps(found))
"""


@pytest.mark.long
@pytest.mark.timeout(180)
def test_nothing_of_one_process(tmp_path):
    every = [*STANDARD, *sorted(safe.packages() - {"procession"}), *DEEPER]
    names = []
    for name in every:
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            continue
        if not any(importlib.util.find_spec(other) for other in safe.verdict(name).unless):
            names.append(name)
    probe = write(tmp_path / "probe.py", PROBE)
    cwd = tmp_path / "directory"
    cwd.mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = run_python("-W", "ignore", probe, *names, cwd=cwd, timeout=150, env=env)
    assert done.returncode == 0, done.stderr
    found = set(json.loads(done.stdout.splitlines()[-1]))
    assert found - KNOWN == set()
    assert "time logging._startTime" in found
    assert "generator random._inst" in found
