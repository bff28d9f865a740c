"""Changes one thing after another that a process passes on to children, and runs warm each time.

Run by its path, with names of changes. Each is made in a fork, which then runs one rank warm, and
prints a line of JSON: the change, what the fork itself is, what its rank is, the rank's parent, and
why it started cold.
"""

import ctypes
import json
import logging
import os
import resource
import signal
import socket
import sys

import procession
from seams.warm import read_facts


def facts():
    """Say what this process is: the table, and what a rank gets with its job."""
    with open("/proc/self/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    umask = os.umask(0)
    os.umask(umask)
    return {
        **read_facts(),
        "umask": umask,
        "cwd": os.getcwd(),
        "variable": os.environ.get("CHANGED"),
        "leads": [os.getpid() == os.getsid(0) == os.getpgrp(), fields[4]],  # has no terminal
        "parent": os.getppid(),
    }


def prctl(*words):
    assert ctypes.CDLL(None).prctl(*map(ctypes.c_ulong, words)) == 0


def soft(limit, value):
    resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))


def hard(limit, value):
    resource.setrlimit(limit, (value, value))


def write(name, text):
    with open(f"/proc/self/{name}", "w") as f:
        f.write(text)


def filtered():
    """Install a filter of seccomp that allows everything."""
    prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    allow = (ctypes.c_ubyte * 8)(6, 0, 0, 0, 0, 0, 0xFF, 0x7F)  # BPF_RET, SECCOMP_RET_ALLOW

    class Program(ctypes.Structure):
        _fields_ = (("count", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    program = Program(1, ctypes.addressof(allow))
    prctl(22, 2, ctypes.addressof(program), 0, 0)


def namespace():
    """Enter another namespace of host names (CLONE_NEWUTS)."""
    if ctypes.CDLL(None, use_errno=True).unshare(0x04000000) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def no_capability():
    """Give up one of the capabilities that a child could have (CAP_WAKE_ALARM)."""
    if ctypes.CDLL(None, use_errno=True).prctl(24, *map(ctypes.c_ulong, (35, 0, 0, 0))) != 0:
        raise OSError(ctypes.get_errno(), "capability")


def ignore_hangup():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


CHANGES = {
    "nothing": lambda: None,
    "cwd": lambda: os.chdir("/"),
    "umask": lambda: os.umask(0o027),
    "variable": lambda: os.environ.update(CHANGED="yes"),
    "session": os.setsid,
    "core": lambda: soft(resource.RLIMIT_CORE, 4096),
    "files": lambda: soft(
        resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1
    ),
    "batch": lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)),
    "io": lambda: ctypes.CDLL(None).syscall(
        {"x86_64": 251, "aarch64": 30}[os.uname().machine], 1, 0, 2 << 13 | 6
    ),
    "slack": lambda: prctl(29, 70000, 0, 0, 0),
    "dump": lambda: write("coredump_filter", "0x13"),
    "nice and oom": lambda: (os.nice(3), write("oom_score_adj", "77")),
    # These cannot be given to a kept agent.
    "stack": lambda: soft(resource.RLIMIT_STACK, 4 << 20),
    "hard": lambda: hard(resource.RLIMIT_CORE, 0),
    "affinity": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    "privileges": lambda: prctl(38, 1, 0, 0, 0),
    "filter": filtered,
    "ignored": ignore_hangup,
    "locale": lambda: os.environ.update(LC_ALL="C"),
    "groups": lambda: os.setgroups([*os.getgroups(), 54321]),
    "capability": no_capability,
    "namespace": namespace,
}


def run_changed(name):
    """Make a change in this process, and say what a rank is then."""
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("procession").addHandler(handler)
    try:
        CHANGES[name]()
    except PermissionError:
        return {"change": name, "refused": True}
    (rank,) = procession.run(facts, nproc=1, warm=True, preload=["decimal"])
    return {"change": name, "own": facts(), "rank": rank, "said": said}


def main(names):
    for name in names:
        ours, theirs = socket.socketpair()
        if not (pid := os.fork()):
            code = 1
            try:
                theirs.sendall(json.dumps(run_changed(name)).encode())
                code = 0
            finally:
                theirs.close()
                procession.forkserver.close()
                os._exit(code)
        theirs.close()
        said = b""
        while data := ours.recv(1 << 16):
            said += data
        ours.close()
        assert os.waitpid(pid, 0)[1] == 0, name
        print(said.decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
