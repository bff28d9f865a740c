"""`Placement`: what is refused before anything starts."""

import pytest

from seams.values import Placement, SpecError, make_spec, read_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4G", 4 << 30), ("512M", 512 << 20), ("1.5g", 3 << 29), ("2GiB", 2 << 30),
        ("64MB", 64 << 20), ("1T", 1 << 40), ("2048K", 2 << 20),
        ("123456789", 123456789), (" 1 G ", 1 << 30),
    ],
)  # fmt: skip
def test_sizes(text, size):
    assert read_size(text) == size
    assert Placement(memory_limit=text).memory_bytes == size


@pytest.mark.parametrize(
    "text", ["", "G", "four", "-1G", "0", "1e9", "inf", "nan", "1_000M", "4GG"]
)
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="is not a size"):
        read_size(text)


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        (Placement(numa="core"), "numa must be one of node, socket, exclusive, core-complex"),
        (Placement(cpus_per_rank=0), "cpus_per_rank must be a count"),
        (Placement(cpus_per_rank=True), "cpus_per_rank must be a count"),
        (Placement(cpus_per_rank=1, numa="node"), "give one"),
        (Placement(memory_limit="much"), "is not a size"),
        (Placement(memory_limit=1.5), "must be a size"),
        (Placement(memory_limit=4096), "less than a program needs"),
        ("node", "placement must be a Placement"),
    ],
)
def test_refused_in_one_line(placement, said):
    with pytest.raises(SpecError, match=said) as caught:
        make_spec(("true",), nproc=2, placement=placement)
    assert "\n" not in str(caught.value)
