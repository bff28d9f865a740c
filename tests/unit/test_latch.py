"""Waiting for something that happens once."""

import threading

import pytest

from seams.system import Latch
from support import until


class Full(list):
    """A list of waits that nobody can be taken from: there is no memory left."""

    def pop(self):
        raise MemoryError


def test_a_set_that_has_no_memory_to_wake_anybody_ends_the_wait_of_the_main_thread():
    latch = Latch()
    latch._waits = Full()

    def set_it():
        until(lambda: latch._waits, "somebody who waits")
        with pytest.raises(MemoryError):
            latch.set()

    thread = threading.Thread(target=set_it)
    thread.start()
    assert latch.wait()
    thread.join()


def test_a_wait_has_a_limit():
    latch = Latch()
    assert not latch.wait(0)
    assert not latch.wait(0.01)
    latch.set()
    assert latch.wait(0)
    assert latch.wait()
