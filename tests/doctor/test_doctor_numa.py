"""NUMA nodes of other machines."""

import pytest
from doctor_machines import tree, two_nodes

from seams.system import numa
from seams.values import cpusets


def test_two_nodes(tmp_path):
    found = numa.nodes(tree(tmp_path, two_nodes()))
    assert found == {0: (0, 1, 2, 3, 8, 9, 10, 11), 1: (4, 5, 6, 7, 12, 13, 14, 15)}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0", (0,)), ("0-2,5\n", (0, 1, 2, 5)), ("", ()), ("x", ()), ("1-", ()), ("3-1", ())],
)
def test_lists_of_cores(text, cpus):
    assert cpusets.parse_cpus(text) == cpus
