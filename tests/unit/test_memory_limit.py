"""A process that the kernel does kill for want of memory, in a cgroup made for it."""

import os
import subprocess

import pytest

from seams.system import cgroups
from support import PYTHON, write

MIB = 1 << 20
SCRIPT = """
    import os, resource, signal, sys
    from procession.system.cgroups import OomWatch

    def verdict(program):
        if not (pid := os.fork()):
            try:
                program()
            finally:
                os._exit(1)
        _, status, usage = os.wait4(pid, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return watch.verdict(usage.ru_maxrss << 10)

    sys.stdin.readline()  # until this process is in its cgroup
    watch = OomWatch()
    assert not watch.whole_machine
    signalled = verdict(lambda: os.kill(os.getpid(), signal.SIGKILL))
    too_big = verdict(lambda: b"x" * (int(sys.argv[1]) << 20))
    print(signalled, too_big, verdict(lambda: os.kill(os.getpid(), signal.SIGKILL)))
"""


@pytest.fixture
def small_cgroup():
    """Make a cgroup of version 2 with 64 MiB beside or above this process's own; gives its path."""
    for above in cgroups().paths:
        place = f"{above}/procession-test-{os.getpid()}"
        try:
            with open(f"{above}/cgroup.subtree_control") as f:
                if "memory" not in f.read().split():
                    continue
            os.mkdir(place)
        except OSError:
            continue
        try:
            with open(f"{place}/memory.max", "w") as f:
                f.write(str(64 * MIB))
            if os.path.exists(f"{place}/memory.swap.max"):
                with open(f"{place}/memory.swap.max", "w") as f:
                    f.write("0")
            yield place
        finally:
            os.rmdir(place)
        return
    pytest.skip("no cgroup (v2) here below which this user may make one with a memory.max")


def test_the_kernel_kills_what_is_too_big(small_cgroup, tmp_path):
    script = write(tmp_path / "script.py", SCRIPT)
    with subprocess.Popen(
        [PYTHON, str(script), "256"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            with open(f"{small_cgroup}/cgroup.procs", "w") as f:
                f.write(str(process.pid))
            said, errors = process.communicate("go\n", timeout=30)
        except PermissionError:
            pytest.skip("this user may make a cgroup here, but not move a process there")
        finally:
            process.kill()
    assert said.split() == ["False", "True", "False"], errors
