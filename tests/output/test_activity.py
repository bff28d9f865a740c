"""When ranks wrote last: by files that have changed, whatever the times of files say."""

import os
import time
from types import SimpleNamespace

import pytest

from seams.output import activity

SECOND = 1_000_000_000


class World:
    """One rank with a file, and a clock."""

    def __init__(self, path):
        self.path = path
        self.now = 1000 * SECOND
        self.read = 0
        self.seen = activity.Activity(
            SimpleNamespace(
                files=SimpleNamespace(log_files=lambda attempt, rank: (str(self.path), "")),
                read_of=lambda rank: [SimpleNamespace(fed_at=self.read)],
            )
        )

    def pass_(self, seconds):
        self.now += seconds * SECOND

    def write(self, stamp=1):
        """Write to the file, and have its time say something else."""
        time.sleep(0.02)  # for the kernel's clock of files
        with open(self.path, "a") as f:
            f.write("x")
        os.utime(self.path, ns=(stamp, stamp))

    def silence(self):
        """Give for how many seconds the rank has been silent, None if it never wrote."""
        at = self.seen.last_written(self.now, [0])[0]
        return None if not at else (self.now - at) / SECOND


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "stdout.log")


@pytest.mark.parametrize("stamp", [1, 1 << 62])
def test_a_file_that_has_changed_was_written_to_whatever_its_time_says(world, stamp):
    assert world.silence() is None
    for _ in range(2):
        world.write(stamp)
        assert world.silence() == 0
        world.pass_(5)
        assert world.silence() == 5


def test_what_was_read_counts_as_well(world):
    world.write()
    world.silence()
    world.pass_(7)
    world.read = world.now - 2 * SECOND
    assert world.silence() == 2


def test_a_file_that_is_written_over_or_made_empty_after_each_write(world):
    world.write()
    assert world.silence() == 0
    for text in ("y", "", "y"):
        world.pass_(3)
        time.sleep(0.02)  # for the kernel's clock of files
        world.path.write_text(text)
        os.utime(world.path, ns=(1, 1))
        assert world.silence() == 0


def test_the_file_of_another_life(world, tmp_path):
    world.write()
    assert world.silence() == 0
    world.path = tmp_path / "second.log"
    assert world.silence() is None
    world.path.touch()
    assert world.silence() is None
    world.write()
    assert world.silence() == 0
