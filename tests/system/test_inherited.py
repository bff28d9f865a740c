"""A rank is what a fresh child of its caller would be, whatever the launches before it were."""

import contextlib
import os
import sys

import pytest

from support import run_python, write

# What a process is, as the kernel tells it; by a rank and by a child of the launcher.
DESCRIBE = """
    import os, resource
    def describe():
        found = {}
        for line in open("/proc/self/status"):
            name, _, value = line.partition(":")
            if name in ("Uid", "Gid", "Groups", "Umask", "NoNewPrivs", "Seccomp",
                        "Cpus_allowed_list") or name.startswith("Cap"):
                found[name] = value.split()
        try:
            for name in os.listdir("/proc/self/ns"):
                found[name] = os.readlink("/proc/self/ns/" + name)
        except PermissionError:
            found["ns"] = None  # closed to a program whose real and effective user differ
        for name in ("cgroup", "oom_score_adj", "personality"):
            try:
                found[name] = open("/proc/self/" + name).read()
            except OSError:
                found[name] = None
        found["nice"] = os.nice(0)
        found["policy"] = os.sched_getscheduler(0)
        found["limits"] = [resource.getrlimit(n) for n in range(16)]
        found["root"] = os.stat("/").st_ino
        return found
"""
SCRIPT = """
    import ctypes, json, os, resource, subprocess, sys
    import procession
    import description

    def launched():
        return procession.run([sys.executable, "describe.py", "rank"], nproc=1)

    libc = ctypes.CDLL(None, use_errno=True)
    def call(name, *args):
        if getattr(libc, name)(*args):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    launched()
    before = json.load(open("rank"))
    for change in sys.argv[1:]:
        try:
            exec(change)
        except OSError as e:
            print("unable", change, e)
            continue
        launched()
        subprocess.run([sys.executable, "describe.py", "child"], check=True)
        rank, child = json.load(open("rank")), json.load(open("child"))
        different = {name: (rank[name], child[name]) for name in child if rank[name] != child[name]}
        print("unchanged" if child == before else "changed", different)
        before = rank
"""
CGROUP = f"/sys/fs/cgroup/freezer/procession_inherited_{os.getpid()}"
# One after the other, in one process for each list: what is given up first cannot be had back.
CHANGES = {
    "ordinary": [
        "os.umask(0o027)",
        "os.nice(3)",
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
        "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
        'open("/proc/self/oom_score_adj", "w").write("500")',
        'call("personality", 0x0040000)',
        'call("prctl", 38, 1, 0, 0, 0)',  # no_new_privs
    ],
    "kernel": [
        f"open('{CGROUP}/cgroup.procs', 'w').write(str(os.getpid()))",
        'call("unshare", 0x04000000)',  # host name
        'call("unshare", 0x00020000)',  # mounts
        'call("unshare", 0x40000000)',  # network
        'call("prctl", 24, 21, 0, 0, 0)',  # bounding set
        "os.setgroups([12345])",
        "os.setresgid(65534, 65534, 65534)",
    ],
    "effective user": ["os.seteuid(65534)"],
    "real user": ["os.setresuid(65534, -1, -1)"],
}


def needs_open_python():
    """Skip a test where another user cannot run this interpreter."""
    place = os.path.realpath(sys.executable)
    while place != "/":
        place = os.path.dirname(place)
        if not os.stat(place).st_mode & 0o001:
            pytest.skip(f"no other user may enter {place}")


def let_others_in(path, monkeypatch):
    """Let other users write here, also those in our group; pytest's own directories are closed."""
    path.chmod(0o777)
    for place in path.parents:
        if place.name.startswith(("pytest-", "popen-")):
            place.chmod(place.stat().st_mode | 0o011)
    monkeypatch.setenv("TMPDIR", str(path))


@pytest.mark.parametrize("which", CHANGES)
def test_launch_after_a_change(tmp_path, which, monkeypatch):
    if which != "ordinary" and os.geteuid():
        pytest.skip("only root may change this")
    if "user" in which:
        needs_open_python()
        let_others_in(tmp_path, monkeypatch)
    write(tmp_path / "description.py", DESCRIBE)
    write(
        tmp_path / "describe.py",
        """
        import json, os, sys, description
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), sys.argv[1])
        if os.path.exists(path):
            os.unlink(path)
        with open(path, "w") as f:
            json.dump(description.describe(), f)
        """,
    )
    with contextlib.suppress(OSError):
        os.mkdir(CGROUP)
    done = run_python(write(tmp_path / "main.py", SCRIPT), *CHANGES[which], cwd=tmp_path)
    if os.path.exists(CGROUP):
        os.rmdir(CGROUP)
    said = [line for line in done.stdout.splitlines() if not line.startswith("unable")]
    if not said:
        pytest.skip(f"not here: {done.stdout}")
    assert said == ["changed {}"] * len(said), done.stdout + done.stderr


def test_an_agent_does_not_keep_rights_that_were_given_up(tmp_path):
    """From the next launch on, none rests that has them."""
    if os.geteuid():
        pytest.skip("only root may change its group")
    script = write(
        tmp_path / "main.py",
        """
        import os, procession
        def parent():
            return os.getppid()
        [old] = procession.run(parent)
        os.setresgid(65534, -1, -1)
        [new] = procession.run(parent)
        print(new != old, os.path.exists(f"/proc/{old}"))
        """,
    )
    done = run_python(script)
    assert done.stdout == "True False\n", done.stderr
