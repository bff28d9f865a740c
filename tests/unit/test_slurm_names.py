"""What Slurm says of an allocation: its short form of many names."""

import os
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seams.jobs import EngineError
from seams.slurm import counts, expand


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


def test_counts():
    assert counts("2(x3),1") == (2, 2, 2, 1)
    assert counts("4") == (4,)
    for text in ("", "2(x", "two", "1,,2"):
        with pytest.raises(EngineError, match="list of counts cannot be read"):
            counts(text)


@st.composite
def ranges(draw):
    low = draw(st.integers(0, 120))
    text = str(low).zfill(draw(st.integers(1, 4)))
    if draw(st.booleans()):
        text += f"-{str(low + draw(st.integers(0, 9))).zfill(len(text))}"
    return text


NAMES = st.from_regex(r"[a-z]{1,4}(-[a-z]{1,2})?", fullmatch=True)
HOSTS = st.builds(
    lambda name, parts, end: f"{name}[{','.join(parts)}]{end}" if parts else name,
    NAMES, st.lists(ranges(), max_size=3), st.sampled_from(["", "n[7,10-12]"]),
)  # fmt: skip


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """Give the variables with which scontrol needs no cluster."""
    path = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    path.write_text("ClusterName=none\nSlurmctldHost=localhost\n")
    return {**os.environ, "SLURM_CONF": str(path)}


@pytest.mark.skipif(not shutil.which("scontrol"), reason="there is no Slurm here to compare with")
@settings(max_examples=60, deadline=None)
@given(text=st.lists(HOSTS, min_size=1, max_size=3).map(",".join))
def test_as_slurm_says(slurm, text):
    words = ["scontrol", "show", "hostnames", text]
    done = subprocess.run(words, env=slurm, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    assert expand(text) == tuple(done.stdout.split())
