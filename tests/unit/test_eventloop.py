"""Deadlines of the event loop."""

import pytest

from seams.system import EventLoop


@pytest.fixture
def loop():
    made = EventLoop()
    yield made
    made.close()


def test_a_deadline_that_is_set_anew_by_one_that_is_due_has_its_whole_time(loop):
    called = []
    loop.after("first", 0.0, lambda: loop.after("second", 600.0, lambda: called.append("anew")))
    loop.after("second", 0.0, lambda: called.append("as it was"))
    loop.turn()
    assert called == []


def test_a_deadline_that_is_cancelled_by_one_that_is_due_does_not_come(loop):
    called = []
    loop.after("first", 0.0, lambda: loop.cancel("second"))
    loop.after("second", 0.0, lambda: called.append("second"))
    loop.turn()
    assert called == []
