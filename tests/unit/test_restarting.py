"""Whether what failed starts again: rules alone, with made-up times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seams.rules import Decision, Restarts, place_of
from seams.values import Exit, Outcome, RankEnd, Restart


def restarts(chance=0.5, **rules):
    return Restarts(Restart(**rules), lambda: chance)


def fail(rules, now=0.0, uptime=None, place="here", codes=(1,), rank=None):
    return rules.decide(now, uptime, place, codes, rank)


def test_without_restarts_there_is_nothing_to_say():
    assert fail(restarts()) == Decision(False)
    assert restarts(node_losses=0).decide_for_lost_node().why == "a lost node forbids a restart"
    assert Decision(again=True).delay == 0


@pytest.mark.parametrize(
    ("most", "why"),
    [(1, "1 of 1 restarts after lost nodes are used"),
     (2, "2 of 2 restarts after lost nodes are used")],
)  # fmt: skip
def test_losses_of_nodes_have_a_budget_of_their_own(most, why):
    rules = restarts(node_losses=most)
    assert [rules.decide_for_lost_node() for _ in range(most)] == [Decision(again=True)] * most
    assert rules.decide_for_lost_node() == Decision(again=False, why=why)


def test_none_is_left_when_no_failure_of_any_kind_leads_to_one():
    rules = restarts(max=1, node_losses=1)
    fail(rules)
    assert not rules.none_left
    assert rules.decide_for_lost_node().again
    assert rules.none_left


def test_only_those_in_the_window_count():
    rules = restarts(max=2, window=60)
    assert [fail(rules, now).again for now in (0, 30, 59, 60, 61, 90)] == [
        *(True, True, False, True, False, True),
    ]
    assert fail(rules, 91).why == "2 of 2 restarts are used within 60 s"


def test_each_wait_is_twice_the_one_before_up_to_the_longest():
    rules = restarts(max=9, backoff=1, longest=5)
    assert [fail(rules).delay for _ in range(5)] == [1, 2, 4, 5, 5]


def test_after_a_useful_attempt_the_waits_begin_anew():
    rules = restarts(max=9, backoff=1, min_uptime=10)
    waits = [fail(rules, uptime=up, place=f"{i}").delay for i, up in enumerate((1, None, 30, 2, 3))]
    assert waits == [1, 2, 1, 2, 4]


@given(
    chance=st.floats(0, 1), jitter=st.floats(0, 1), backoff=st.floats(0, 1e6), n=st.integers(1, 60)
)
def test_jitter_stays_within_its_fraction(chance, jitter, backoff, n):
    rules = restarts(chance, max=100, backoff=backoff, longest=1e6, jitter=jitter)
    for i in range(n):
        delay = fail(rules).delay
        wait = min(1e6, backoff * 2.0**i)
        assert wait * (1 - jitter) * (1 - 1e-9) <= delay <= wait * (1 + jitter) * (1 + 1e-9)


def test_twice_in_the_same_place_too_early_is_enough():
    rules = restarts(max=9, min_uptime=5)
    assert fail(rules, uptime=1, place="ValueError in train.py:41").again
    assert not (second := fail(rules, uptime=4.9, place="ValueError in train.py:41")).again
    assert second.why == (
        "it failed twice at the same location (ValueError in train.py:41) within 5 s of its start"
    )


@pytest.mark.parametrize(
    "failures",
    [
        [(1, "a"), (1, "b"), (1, "a")],
        [(1, "a"), (5, "a"), (1, "a")],
        [(9, "a"), (9, "a"), (9, "a")],
    ],
    ids=["elsewhere", "one was useful", "all were useful"],
)
def test_otherwise_it_starts_again(failures):
    rules = restarts(max=9, min_uptime=5)
    assert all(fail(rules, uptime=up, place=place).again for up, place in failures)


def test_ranks_have_places_of_their_own_and_one_budget():
    rules = restarts(max=3, min_uptime=5, backoff=1)
    assert [fail(rules, uptime=1, rank=r).delay for r in (0, 1)] == [1, 1]
    assert "twice at the same location" in fail(rules, uptime=1, rank=0).why
    assert fail(rules, uptime=1, rank=2).again
    assert "3 of 3 restarts" in fail(rules, uptime=1, rank=3).why


def test_an_exit_code_can_forbid_it():
    assert fail(restarts(max=9), codes=(78,)).why == "exit code 78 forbids a restart"
    assert not fail(restarts(max=9, never=(3, 4)), codes=(1, 4)).again
    assert fail(restarts(max=9, never=()), codes=(78,)).again


TRACE = """Traceback (most recent call last):
  File "/home/me/train.py", line 88, in <module>
    main()
  File "/home/me/data.py", line 41, in load
    raise ValueError(f"no batch {n}")
ValueError: no batch 17
"""
RAISED = {"type_name": "ValueError", "traceback": TRACE}


@pytest.mark.parametrize(
    ("outcome", "facts", "place"),
    [
        (Outcome.RAISED, RAISED, "ValueError in data.py:41"),
        (Outcome.RAISED, {"type_name": "ValueError"}, "ValueError"),
        (
            Outcome.RAISED,
            {"type_name": "OSError", "traceback": '  File "x.py", line 4, in f\n    g()'},
            "OSError in x.py:4",
        ),
        (Outcome.EXITED, {"exit": Exit(code=7)}, "exit code 7"),
        (Outcome.EXITED, {"exit": Exit(code=1), "type_name": "SystemExit"}, "exit code 1"),
        (Outcome.EXITED, {"exit": Exit(signal=15), "announced": 4}, "exit code 4"),
        (Outcome.SIGNALLED, {"exit": Exit(signal=11)}, "SIGSEGV (signal 11)"),
        (Outcome.NO_VALUE, {"exit": Exit(code=0)}, "ended without returning"),
    ],
    ids=str,
)
def test_a_place_is_what_happened_and_where(outcome, facts, place):
    assert place_of(RankEnd(rank=0, pid=1, outcome=outcome, **facts)) == place


@pytest.mark.parametrize(
    "wrong",
    [
        {"max": -1},
        {"max": True},
        {"backoff": -1},
        {"backoff": "1"},
        {"longest": float("nan")},
        {"jitter": 1.5},
        {"window": -1},
        {"min_uptime": None},
        {"scope": "node"},
        {"never": "78"},
        {"never": (0,)},
        {"never": (256,)},
        {"never": 78},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match=r"^restart: "):
        Restart(**wrong).check()
