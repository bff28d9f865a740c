"""What Slurm says of an allocation: its short form of many names."""

import pytest

from seams.jobs import EngineError
from seams.slurm import expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3,7],gpu-05", ["n1", "n2", "n3", "n7", "gpu-05"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[001,3]", ["n001", "n3"]),
        ("r[0-1]n[1-2]", ["r0n1", "r0n2", "r1n1", "r1n2"]),
        ("a[1-2]-ib.example.org,b", ["a1-ib.example.org", "a2-ib.example.org", "b"]),
    ],
)
def test_names(text, names):
    assert expand(text) == tuple(names)


@pytest.mark.parametrize(
    "text",
    ["", ",", "n1,", "n[1-3", "n]1", "n[3-1]", "n[]", "n[a-b]", "n 1", "n[1,,2]", "n[1-2-3]"],
)
def test_what_is_no_list(text):
    with pytest.raises(EngineError, match="list of nodes cannot be read"):
        expand(text)
