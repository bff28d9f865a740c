"""How an event loop counts time in which the whole process was stopped."""

import pytest

from seams.system import EventLoop

SECOND = 1_000_000_000


@pytest.fixture
def loop(monkeypatch):
    """A loop whose clock stands at 100 s."""
    made = EventLoop()
    monkeypatch.setattr("time.monotonic_ns", lambda: 100 * SECOND)
    yield made
    monkeypatch.undo()
    made.close()


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
