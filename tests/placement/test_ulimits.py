"""Limits of ranks (`--ulimit`): by each way to start them, and what is refused."""

import os
import resource
import sys
from pathlib import Path

import pytest

import procession
from engines.localengine import LocalEngine
from procession import Placement
from seams.values import SpecError
from support import run_procession, write

sys.path.insert(0, str(Path(__file__).parents[1] / "warm"))
from keeping import keeper

OWN = [resource.getrlimit(which) for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)]
WANTED = Placement(ulimits={"nofile": 300, "cpu": 5000})
GIVEN = [(300, OWN[0][1]), (5000, OWN[1][1])]
SEE = """
import resource
print([resource.getrlimit(which) for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)])
"""


def see():
    return [resource.getrlimit(which) for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)]


@pytest.fixture
def kept():
    yield from keeper()


@pytest.mark.parametrize(
    "how",
    [
        {"start_method": "forkserver"},
        {"start_method": "spawn"},
        {"start_method": "fork"},
        {"warm": 60.0},
        {"engine": LocalEngine(2), "nnodes": 2},
    ],
    ids=lambda how: "-".join(map(str, how)),
)
def test_functions_have_them_and_those_of_the_next_run_do_not(how, kept):
    """The agent that is kept for the next run has none of them."""
    first, second = (procession.run(see, placement=p, **how) for p in (WANTED, None))
    nodes = how.get("nnodes", 1)
    assert (first, second) == ([GIVEN] * nodes, [OWN] * nodes)
    assert see() == OWN
    assert [entry["uses"] for entry in kept.list()] == [2] * ("warm" in how)


@pytest.mark.parametrize("options", [(), ("--start-method", "spawn"), ("--warm",)])
def test_scripts(options, tmp_path, kept):
    script = write(tmp_path / "see.py", SEE)
    for words, seen in ((("--ulimit", "nofile=300,cpu=5000"), GIVEN), ((), OWN)):
        done = run_procession("run", *options, *words, script)
        assert done.stdout == f"{seen}\n", done.stderr


def test_commands():
    see = "ulimit -n; ulimit -t; ulimit -c"
    words = ("--ulimit", "nofile=300,cpu=5000,core=0", "sh", "-c", see)
    assert run_procession("run", *words).stdout == "300\n5000\n0\n"
    assert "ulimits={'nofile': 300," in run_procession("run", "--dry-run", *words).stdout


@pytest.mark.parametrize(
    ("text", "ulimits", "said"),
    [
        ("nofile=many", {"nofile": "many"}, "must be "),
        ("nofile", {"nofile": None}, "must be "),
        ("", {"": 1}, "must be "),
        ("nofiles=1", {"nofiles": 1}, "must be limits by name (as, core, cpu,"),
        ("data=1", {"data": 1}, "must be limits by name (as, core, cpu,"),
    ],
)
def test_refused(text, ulimits, said):
    with pytest.raises(SpecError) as caught:
        procession.run(["true"], placement=Placement(ulimits=ulimits))
    assert f"ulimits {said}" in str(caught.value)
    done = run_procession("run", "--ulimit", text, "true")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"--ulimit {said}" in done.stderr


@pytest.mark.skipif(OWN[0][1] == resource.RLIM_INFINITY, reason="there is no hard limit")
@pytest.mark.parametrize("limit", [OWN[0][1] + 1, resource.RLIM_INFINITY])
def test_refused_above_the_hard_limit(limit):
    said = f"ulimits: nofile must be at most {OWN[0][1]}, its hard limit here"
    with pytest.raises(SpecError, match=said):
        procession.run(os.getpid, placement=Placement(ulimits={"nofile": limit}))
