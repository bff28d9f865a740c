"""A launcher of many groups: leakwork.py KIND GROUPS SCRIPT. Says what it has, five times."""

import collections
import ctypes
import gc
import json
import os
import sys
import threading

import procession
from procession.system import ports

WARM_UP = 20  # groups, until all is imported, and caches are full
LOGS = procession.Logs(ranks=[])


def fail():
    raise ArithmeticError


def one(kind, script):
    """Run a group of two quick ranks."""
    if kind == "failure":
        try:
            procession.run(fail, nproc=2, logs=LOGS)
        except procession.GroupFailed:
            return
        raise AssertionError
    program = {"script": procession.Script(script), "command": ["true"]}.get(kind, os.getpid)
    method = "fork" if kind == "fork" else "forkserver"
    procession.run(program, nproc=2, start_method=method)


def resident():
    """Give the memory of this process in kB, without what malloc only keeps."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def look():
    """Count what this process has."""
    gc.collect()
    types = collections.Counter(f"objects: {type(each).__name__}" for each in gc.get_objects())
    return {
        "resident kB": resident(),
        "blocks": sys.getallocatedblocks(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        **types,
    }


if __name__ == "__main__":
    kind, groups, script = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(script, "w") as f:
        f.write("pass\n")
    # The ports that were given out last are remembered, up to a thousand: they are there already.
    ports._given = [10**6 + n for n in range(1000)]
    for _ in range(WARM_UP):
        one(kind, script)
    print(json.dumps(look()), flush=True)
    for _ in range(4):
        for _ in range(groups // 4):
            one(kind, script)
        print(json.dumps(look()), flush=True)
