"""Values of hundreds of megabytes, from nodes that are busy."""

import contextlib
import subprocess
import sys

import pytest

import procession
from engines.localengine import LocalEngine

MEGABYTES = 150
BUSY = "import os; p = os.getppid()\nwhile os.getppid() == p: pass"  # never longer than we are


@pytest.fixture
def load():
    """Keep cores busy."""
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            busy = subprocess.Popen([sys.executable, "-c", BUSY])
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        yield


def large(size):
    import os

    return os.environ["RANK"].encode() * size


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("load")
def test_large_values_lose_no_node():
    """Heartbeats go between the parts of a value: the lease is much shorter than its way."""
    job = procession.start_on(LocalEngine(2), large, args=(MEGABYTES << 20,), nproc=2, lease=2.0)
    values = job.wait(240).values
    assert [(value[:1], len(value)) for value in values] == [
        (str(rank).encode(), MEGABYTES << 20) for rank in range(4)
    ]
