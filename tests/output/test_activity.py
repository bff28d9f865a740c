"""When ranks wrote last: what the times of files say, and clocks that are set meanwhile."""

import os
import time
from types import SimpleNamespace

import pytest

from seams.output import activity

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
EPOCH = 1_700_000_000 * SECOND + 123_456_789  # the time of day as the monotonic clock begins


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A launcher's clocks, and one rank with a file, which another machine's clock may stamp."""

    class World:
        now = 1000 * SECOND
        set_by = 0  # how far the time of day was set
        skew = 0  # of the file system's clock
        path = tmp_path / "stdout.log"
        read = 0

        def pass_(self, seconds):
            self.now += int(seconds * SECOND)

        def write(self, keeps=1):
            with open(self.path, "a") as f:
                f.write("x")
            stamp = EPOCH + self.now + self.set_by + self.skew
            os.utime(self.path, ns=(stamp, stamp // keeps * keeps))

        def silence(self):
            """Give for how many seconds the rank has been silent, None if it never wrote."""
            at = self.seen.look(self.now, [0])[0]
            return None if not at else round((self.now - at) / SECOND, 1)

    world = World()
    clock = SimpleNamespace(
        monotonic_ns=lambda: world.now, time_ns=lambda: EPOCH + world.now + world.set_by
    )
    monkeypatch.setattr(activity, "time", clock)
    streams = SimpleNamespace(
        log_paths=lambda attempt, rank: (str(world.path), ""), last_read=lambda rank: world.read
    )
    world.seen = activity.Activity(streams)
    return world


def test_the_time_of_a_file_says_it(world):
    assert world.silence() is None
    world.pass_(10)
    world.write()
    world.pass_(7)
    assert world.silence() == 7
    world.pass_(5)
    assert world.silence() == 12
    world.write()
    assert world.silence() == 0


def test_what_was_read_counts_as_well(world):
    world.write()
    world.pass_(7)
    world.read = world.now - 2 * SECOND
    assert world.silence() == 2


@pytest.mark.parametrize("by", [-HOUR, -SECOND, SECOND, HOUR])
def test_the_time_of_day_is_set_after_a_write(world, by):
    world.pass_(60)
    world.write()
    world.set_by = by
    world.pass_(1)
    assert world.silence() == 0  # at the latest: one look later than it could be known
    world.pass_(5)
    assert world.silence() == 5
    world.write()
    world.pass_(2)
    assert world.silence() == 2  # the clock goes on as it was set


@pytest.mark.parametrize("skew", [-HOUR, HOUR])
def test_another_machine_stamps_files_by_another_clock(world, skew):
    world.skew = skew
    world.pass_(60)
    world.write()
    world.pass_(1)
    assert world.silence() == 0
    world.pass_(5)
    assert world.silence() == 5


def test_whole_seconds(world):
    """Some file systems keep no more: a file may have been written to a second later."""
    world.pass_(10)
    world.write(keeps=SECOND)
    world.pass_(3)
    assert 2 <= world.silence() <= 3
    world.pass_(0.7)
    world.silence()
    world.write(keeps=SECOND)  # so its time is before that look
    world.pass_(0.1)
    assert world.silence() <= 0.1


def test_a_file_that_is_written_over_and_stamped(world):
    """Nobody can set the time of its last change of all."""
    world.pass_(60)
    world.write()
    os.utime(world.path, ns=(EPOCH, EPOCH))
    assert world.silence() == 0
    world.pass_(60)
    time.sleep(0.02)  # for the kernel's clock of files
    world.path.write_text("y")
    os.utime(world.path, ns=(EPOCH, EPOCH))
    assert world.silence() == 0


def test_a_file_that_is_made_empty_after_each_write(world):
    world.pass_(60)
    world.write()
    assert world.silence() == 0
    for _ in range(2):
        world.pass_(60)
        world.write()
        stamp = os.stat(world.path).st_mtime_ns
        os.truncate(world.path, 0)
        os.utime(world.path, ns=(stamp, stamp))
        assert world.silence() == 0
        world.pass_(3)
        assert world.silence() == 3


def test_the_file_of_another_life(world, tmp_path):
    world.write()
    world.pass_(5)
    assert world.silence() == 5
    world.path = tmp_path / "second.log"
    assert world.silence() is None
    world.path.touch()
    assert world.silence() is None
    world.write()
    world.pass_(3)
    assert world.silence() == 3
