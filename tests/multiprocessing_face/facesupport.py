"""What these tests share."""

import contextlib
import gc
import multiprocessing
from multiprocessing import resource_tracker

import pytest

import procession.multiprocessing as mp

# The original's default always, the others with what takes long.
METHODS = (
    "spawn",
    pytest.param("fork", marks=pytest.mark.long),
    pytest.param("forkserver", marks=pytest.mark.long),
)


@pytest.fixture(autouse=True)
def tidy():
    """End what `multiprocessing` itself keeps, and free what a caught exception keeps."""
    yield
    multiprocessing.active_children()
    gc.collect()
    resource_tracker._resource_tracker._stop()


@contextlib.contextmanager
def ending(group):
    """Kill, on the way out, what still runs of these processes."""
    try:
        yield group
    finally:
        for process in group.processes:
            process.kill()
            process.join()
        with contextlib.suppress(mp.ProcessException):
            group.join()


def notes(folder, count):
    """Read what each rank has noted."""
    return [(folder / str(i)).read_text() for i in range(count)]
