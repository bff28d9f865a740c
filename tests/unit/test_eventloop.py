"""The event loop: its deadlines, and the descriptors that it watches."""

import os

import pytest

from seams.system import EventLoop


@pytest.fixture
def loop():
    made = EventLoop()
    yield made
    made.close()


def test_a_deadline_that_is_due_changes_others(loop):
    called = []
    loop.after("first", 0.0, lambda: loop.after("later", 600.0, lambda: called.append("anew")))
    loop.after("second", 0.0, lambda: loop.cancel("never"))
    loop.after("later", 0.0, lambda: called.append("as it was"))
    loop.after("never", 0.0, lambda: called.append("cancelled"))
    loop.turn()
    assert called == []


def test_a_descriptor_with_the_number_of_a_forgotten_one_is_not_ready(loop):
    first, second, idle = fds = [os.eventfd(n) for n in (1, 1, 0)]
    called = []

    def replace():
        loop.forget(second)
        loop.watch(os.dup2(idle, second), lambda: called.append("idle"))

    loop.watch(first, replace, first=True)
    loop.watch(second, called.clear)
    loop.turn()
    assert called == []
    list(map(os.close, fds))
