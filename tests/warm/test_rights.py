"""A rank of a kept agent is what a child of its caller would be: each fact changed in turn."""

import json
import os

import pytest
from keeping import kept_by_test
from surroundings import CHANGES

from support import run_python

TESTS = os.path.dirname(os.path.dirname(__file__))
PROGRAM = os.path.join(os.path.dirname(__file__), "surroundings.py")
# What keeps a run from being warm, by the change, in the words of the one line about it.
COLD = {
    "cwd": "what is kept was imported in",
    "stack": "its limit of the stack",
    "hard": "its hard limit core",
    "affinity": "its CPUs",
    "privileges": "no_new_privs",
    "filter": "its filters (seccomp)",
    "ignored": "started with other signals ignored or blocked",
    "locale": "started with other variables that Python reads when it starts",
    "groups": "its users and groups",
    "capability": "its capabilities",
    "namespace": "its namespaces",
}
OWN = ("leads", "parent")


@pytest.fixture
def kept():
    yield from kept_by_test()


def changed(*names):
    """Make these changes, each in a process of its own; gives what was said, by change."""
    path = os.pathsep.join([TESTS, os.path.dirname(__file__)])
    env = {**os.environ, "PYTHONPATH": path, "PROCESSION_WARM_MOST": "50"}
    done = run_python(PROGRAM, *names, env=env, timeout=100)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def is_like_a_child(said):
    """Whether a rank is what a child of its caller is."""
    own = {n: v for n, v in said["own"].items() if n not in OWN}
    rank = {n: v for n, v in said["rank"].items() if n not in OWN}
    different = {n: (own[n], rank[n]) for n in own if own[n] != rank[n]}
    if said["change"] == "capability":  # the kernel makes root's anew when it starts a program
        del different["its capabilities"]
    assert different == {}, said["change"]
    assert said["rank"]["leads"] == [True, "0"], said["change"]


@pytest.mark.timeout(120)
def test_a_rank_is_what_a_child_of_its_caller_would_be(kept):
    # Each change is taken back by the next one, but for the last, which needs a privilege for that.
    settable = [name for name in CHANGES if name not in COLD]
    first, *others = changed(*settable)
    assert first["said"] == ["procession: warm: this run starts cold: nothing is kept yet [P406]"]
    template = first["rank"]["parent"]
    is_like_a_child(first)
    assert [said["change"] for said in others] == settable[1:]
    for said in others:
        is_like_a_child(said)
        assert (said["rank"]["parent"], said["said"]) == (template, []), said["change"]


@pytest.mark.timeout(120)
def test_what_cannot_be_set_starts_cold_and_leaves_what_is_kept(kept):
    alone = len(os.sched_getaffinity(0)) == 1  # this process has one CPU, and can have no other
    names = [name for name in COLD if not (alone and name == "affinity")]
    first, *others = changed("nothing", *names, "nothing")
    template = first["rank"]["parent"]
    assert template in [each["pid"] for each in kept.list()]
    for said in others[:-1]:
        if "refused" in said:
            continue
        is_like_a_child(said)
        assert said["rank"]["parent"] != template, said["change"]
        (line,) = [line for line in said["said"] if "starts cold" in line]
        assert COLD[said["change"]] in line, (said["change"], line)
    assert others[-1]["rank"]["parent"] == template
    assert others[-1]["said"] == []
