"""Which CPUs ranks get, on machines that are made up."""

import pytest

from seams.values import Cpu, bind, deal, in_turn, shares


def machine(sockets=2, nodes=2, cores=4, threads=2, caches=1):
    """Make one: `nodes` for each socket, `cores` for each node, in `caches` groups.

    Numbered as most machines are: first one thread of each core, then the other ones.
    """
    per_node = cores // caches
    all_cores = sockets * nodes * cores
    return [
        Cpu(
            number=core + thread * all_cores,
            core=core,
            cache=core - core % per_node,
            node=core // cores,
            socket=core // (cores * nodes),
        )
        for thread in range(threads)
        for core in range(all_cores)
    ]


FULL = machine()  # cores 0-15, their siblings 16-31


def only(cpus, *numbers):
    return [c for c in cpus if c.number in numbers]


def test_siblings_come_when_cores_run_short_and_ranks_do_not_share_a_core():
    assert deal(FULL, 4, 8) == [
        (*range(first, first + 4), *range(first + 16, first + 20)) for first in (0, 4, 8, 12)
    ]
    assert deal(FULL, 8, 3) == [(c, c + 1, c + 16) for c in range(0, 16, 2)]


@pytest.mark.parametrize("nproc", range(1, 17))
@pytest.mark.parametrize("count", range(1, 9))
def test_no_cpu_is_given_twice(nproc, count):
    if nproc * count > len(FULL):
        return
    sets = deal(FULL, nproc, count)
    numbers = [n for own in sets for n in own]
    assert len(sets) == nproc
    assert all(len(own) == count for own in sets)
    assert len(set(numbers)) == len(numbers)


def test_a_cpuset_restricts():
    allowed = only(FULL, 5, 6, 21, 22, 13)
    assert deal(allowed, 2, 1) == [(5,), (6,)]
    assert bind(allowed, "node", [1, 3]) == [(5, 6, 21, 22), (13,)]
    assert bind(allowed, "socket", [1, 3]) == [(5, 6, 21, 22), (13,)]


def node(first):
    return (*range(first, first + 4), *range(first + 16, first + 20))


def test_node():
    assert bind(FULL, "node", [0, 0, 3]) == [node(0), node(0), node(12)]


def test_exclusive_gives_whole_cores_and_the_first_ranks_one_more():
    assert bind(FULL, "exclusive", [1, 0, 1, 1]) == [
        (4, 5, 20, 21),
        node(0),
        (6, 22),
        (7, 23),
    ]


def test_core_complex_takes_the_larger_ones_first_and_begins_again():
    cpus = machine(1, 1, 8, 1, caches=4)  # 0-1, 2-3, 4-5, 6-7
    cpus = [c for c in cpus if c.number != 2]
    sets = bind(cpus, "core-complex", [0] * 5)
    assert sets == [(0, 1), (4, 5), (6, 7), (3,), (0, 1)]


@pytest.mark.parametrize("mode", ["node", "socket", "exclusive", "core-complex"])
def test_a_node_without_a_cpu_for_us(mode):
    with pytest.raises(ValueError, match="rank 1 belongs on NUMA node 3"):
        bind(only(FULL, 0, 1), mode, [0, 3])


def test_ranks_are_dealt_over_the_nodes_that_we_have():
    assert in_turn(FULL, 6) == [0, 1, 2, 3, 0, 1]
    assert in_turn(only(FULL, 4, 13), 3) == [1, 3, 1]


def test_threads_are_shared_among_ranks_of_the_same_cpus():
    assert shares([(0, 1, 2, 3), (0, 1, 2, 3), (4, 5)]) == (2, 2, 2)
    assert shares([(0,)] * 3) == (1, 1, 1)
