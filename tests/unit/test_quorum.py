"""Of two sides of a network that was cut, at most one goes on with a job."""

import itertools

import pytest

from seams.jobs import World, can_succeed


@pytest.mark.parametrize("size", range(1, 8))
def test_at_most_one_side_holds(size):
    """Whichever nodes each side has, and whoever is on neither."""
    held = set()
    for sides in itertools.product(("host", "others", "gone"), repeat=size - 1):
        host = World(size, frozenset({0, *(n for n, s in enumerate(sides, 1) if s == "host")}))
        others = frozenset(n for n, side in enumerate(sides, 1) if side == "others")
        found = host.holds, World(size, others, inherited=True).holds
        held.add(found)
        if found[1]:
            assert can_succeed(size, 1, size + 1)
    assert (True, True) not in held
    assert (True, False) in held
    assert ((False, True) in held) == (size > 2)


def test_who_comes_and_goes():
    world = World(3, frozenset(), inherited=True)
    assert not world.joined_by(1).holds
    assert world.joined_by(1).joined_by(2).holds
    assert not world.joined_by(1).joined_by(2).without(1).holds


@pytest.mark.parametrize(
    ("size", "least", "most", "can"),
    [(3, 1, 3, True), (2, 1, 2, False), (3, 3, 3, False), (4, 4, 5, False), (4, 3, 5, True)],
)
def test_which_jobs_can_go_on_without_their_host(size, least, most, can):
    assert can_succeed(size, least, most) is can
