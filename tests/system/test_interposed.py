"""Libraries that stand before the C library (LD_PRELOAD), as tracers and sanitizers do."""

import os
import shutil
import subprocess

import pytest

from support import run_python

# A buffer on the stack, larger than what calls between a clone and its exec may have.
WRITES = """
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t write(int fd, const void *data, size_t size) {
    volatile char buffer[65536];
    memset((void *)buffer, 0x41, sizeof buffer);
    return syscall(SYS_write, fd, data, size);
}
"""
RUN = """
import procession
print(procession.run(["sh", "-c", "test $RANK -lt 3"], nproc=3))
"""


@pytest.fixture
def interposer(tmp_path):
    """Make a library of C source; gives its path."""
    if (compiler := shutil.which("cc") or shutil.which("gcc")) is None:
        pytest.skip("there is no C compiler")

    def make(source):
        (tmp_path / "interposer.c").write_text(source)
        library = tmp_path / "interposer.so"
        words = [compiler, "-shared", "-fPIC", "-o", library, tmp_path / "interposer.c"]
        subprocess.run(words, check=True)
        return str(library)

    return make


def test_one_that_needs_much_stack(interposer):
    done = run_python("-c", RUN, env={**os.environ, "LD_PRELOAD": interposer(WRITES)})
    assert (done.returncode, done.stdout) == (0, "[None, None, None]\n"), done.stderr
