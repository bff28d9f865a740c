"""How an event loop counts time in which the whole process was stopped."""

import pytest

import procession
from seams.system import EventLoop
from support import QUICK, until

SECOND = 1_000_000_000


@pytest.fixture
def loop(monkeypatch):
    """A loop whose clock stands at 100 s."""
    made = EventLoop()
    monkeypatch.setattr("time.monotonic_ns", lambda: 100 * SECOND)
    yield made
    monkeypatch.undo()
    made.close()


def test_a_stop_counts_as_far_as_it_was_after_a_moment(loop):
    loop.put_off(10.0)
    assert loop.stopped_since(50 * SECOND) == 10 * SECOND
    assert loop.stopped_since(94 * SECOND) == 6 * SECOND
    assert loop.stopped_since(100 * SECOND) == 0


def test_stops_add_up(loop, monkeypatch):
    loop.put_off(10.0)
    monkeypatch.setattr("time.monotonic_ns", lambda: 120 * SECOND)
    loop.put_off(5.0)
    assert loop.stopped_since(50 * SECOND) == 15 * SECOND
    assert loop.stopped_since(100 * SECOND) == 5 * SECOND


class Standing:
    """Stands in for the epoll of a loop: waits on a clock of its own, which stands still once."""

    def __init__(self, monkeypatch, after, seconds):
        self.now, self.after, self.seconds = 100.0, 100.0 + after, seconds
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr("time.monotonic_ns", lambda: int(self.now * SECOND))

    def poll(self, patience):
        end = self.now + patience
        if self.now <= self.after < end:  # stopped in the midst of this wait
            end = max(end, self.after + self.seconds)
        self.now = end
        return []


@pytest.mark.parametrize("seconds", [3, 6, 30])
def test_a_stop_in_the_midst_of_a_long_wait_is_noticed(monkeypatch, seconds):
    loop = EventLoop()
    came = []
    with monkeypatch.context() as patched:
        clock = Standing(patched, after=2.5, seconds=seconds)
        epoll, loop._epoll = loop._epoll, clock
        loop.after("grace", 10.0, lambda: came.append(clock.now))
        while not came:
            loop.turn()
        assert came == [pytest.approx(110.0 + seconds, abs=1.0)]
        assert loop.stopped_since(100 * SECOND) / SECOND == pytest.approx(seconds, abs=1.0)
        loop._epoll = epoll
    loop.close()


def test_a_group_at_work_has_no_deadline():
    """With one, its loop would wake each second, to notice that time stood still."""
    with procession.start(["sleep", "100"], nproc=2, stop=QUICK) as group:
        until(lambda: not group._supervisor._loop._deadlines)
