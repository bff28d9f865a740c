"""Where many ranks are, in few lines."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seams.explain import Stack, merge, stack_of, together, with_first
from seams.values import parse_ranks

DUMPS = Path(__file__).parent / "dumps"
SITE = "/venv/lib/python3.11/site-packages"


def dumped(rank, name, letter="S"):
    return stack_of(rank, 100 + rank, "", letter, (DUMPS / f"{name}.txt").read_bytes())


def stack(rank, *frames, state="", letter="S"):
    return Stack(rank, 100 + rank, state, letter, frames)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("all_reduce", "waits in all_reduce (train.py:42)"),
        ("barrier", "waits in barrier (train.py:41)"),
        ("ddp", "waits in _verify_param_shape_across_processes (train.py:33)"),
        ("backward", "is in backward (train.py:30)"),
        ("dataloader", "waits in _try_get_data (train.py:10)"),
        ("queue", "waits in get (train.py:12)"),
        ("lock", "is in via_lock (train.py:14)"),
        ("sleep", "is in load_batch (train.py:4)"),
        ("popen_wait", "waits in wait (train.py:16)"),
        ("subprocess_run", "waits in run (train.py:18)"),
        ("asyncio", "waits in run (train.py:21)"),
        ("join", "waits in join (train.py:23)"),
    ],
)
def test_where_real_programs_are(name, said):
    assert merge.said_of(dumped(0, name)) == said


HERE = str(Path(merge.__file__).parents[1])  # where this package lies, installed or not
OWN = ("/home/me/train.py", 7, "train")
BEATS = [[(f"{where}/worker/board.py", 79, "_write"), (f"{where}/worker/board.py", 68, "beat")]
         for where in (HERE, f"{SITE}/procession")]  # fmt: skip


@pytest.mark.parametrize("ours", BEATS)
def test_our_own_frames_are_never_blamed(ours):
    assert merge.said_of(stack(0, *ours, OWN)) == "is in train (train.py:7)"
    entry = (f"{HERE}/elastic/entry.py", 9, "call")
    assert merge.said_of(stack(0, *ours, OWN, entry)) == "is in train (train.py:7)"
    lock = (f"{SITE}/torch/distributed/c10d.py", 5, "barrier")
    jax = (f"{HERE}/jax.py", 30, "initialize")
    assert merge.said_of(stack(0, lock, jax, OWN)) == "waits in barrier (train.py:7)"
    assert merge.odd_one([stack(0, *ours, OWN), stack(1, ours[1], OWN), stack(2, OWN)]) is None


def test_the_odd_one_out_comes_first():
    stacks = [dumped(r, "sleep" if r == 3 else "all_reduce") for r in range(8)]
    assert merge.lines_of(merge.together(stacks)) == [
        "rank 3 is in load_batch (train.py:4)",
        "7 ranks [0-2,4-7] wait in all_reduce (train.py:42)",
    ]
    assert merge.odd_one(stacks) == 3


@pytest.mark.parametrize(
    "names",
    [
        ["sleep"],
        ["sleep", "lock"],
        ["sleep", "lock", "queue", "queue"],
        ["queue", "queue"],
        ["queue", "queue", "lock", "lock"],
    ],
)
def test_without_one_that_is_odd(names):
    assert merge.odd_one([dumped(r, name) for r, name in enumerate(names)]) is None


@pytest.mark.parametrize("name", ["<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>", "<lambda>"])
def test_who_waits_in_a_loop_is_not_odd_wherever_it_is_within(name):
    loop, main = ("/home/me/train.py", 9, "wait_for_all"), ("/home/me/train.py", 30, "train")
    looks = ("/usr/lib/python3.11/genericpath.py", 19, "exists")
    hangs = stack(1, ("/home/me/train.py", 20, "load"), main)
    part = ("/home/me/train.py", 9, name)
    waiting = [stack(0, looks, part, loop, main), *(stack(r, loop, main) for r in (2, 3))]
    assert merge.odd_one([hangs, *waiting]) == 1
    assert merge.odd_one([hangs, *waiting[:2]]) == 1
    assert merge.odd_one([hangs, waiting[0]]) is None
    assert merge.odd_one([hangs, *waiting, stack(4, main)]) is None


def test_of_two_the_one_that_does_not_stand_in_a_package():
    waits = dumped(0, "all_reduce")
    for name in ("sleep", "queue", "dataloader"):
        assert merge.odd_one([waits, dumped(1, name)]) == 1
    assert merge.odd_one([waits, dumped(1, "barrier")]) is None


def test_the_one_that_hangs_comes_first():
    """Others may be anywhere at that moment."""
    found = together([stack(0, OWN), dumped(1, "sleep"), dumped(2, "queue")])
    assert [each.ranks for each in with_first(found, [1])] == [(1,), (0,), (2,)]


@pytest.mark.parametrize("state", ["is stopped (as by a debugger)", "is in uninterruptible sleep"])
def test_who_is_held_from_outside_is_the_odd_one(state):
    held = stack(1, state=state)
    assert merge.odd_one([dumped(0, "sleep"), held]) == 1
    assert merge.odd_one([dumped(0, "sleep", "D"), dumped(1, "lock")]) is None  # it has shown it
    assert merge.odd_one([held, stack(2, state=state)]) is None
    assert merge.odd_one([held]) is None


def test_who_works_does_not_wait():
    assert merge.said_of(dumped(0, "barrier", "R")) == "is in barrier (train.py:41)"
    both = [dumped(0, "barrier", "R"), dumped(1, "barrier", "S")]
    assert merge.lines_of(merge.together(both)) == ["2 ranks [0-1] wait in barrier (train.py:41)"]


def test_a_program_that_is_an_installed_package():
    frames = (
        (f"{SITE}/torch/distributed/c10d.py", 5, "all_reduce"),
        (f"{SITE}/mine/train.py", 7, "step"),
        (f"{SITE}/mine/__main__.py", 2, "<module>"),
    )
    assert merge.said_of(stack(0, *frames)) == "waits in all_reduce (train.py:7)"


def test_ranks_without_a_stack():
    stacks = [
        stack(0, state="is stopped (as by SIGSTOP, or by a debugger)"),
        stack(1, state="sleeps (in ep_poll)"),
        stack(2, state="sleeps (in ep_poll)"),
    ]
    assert merge.lines_of(merge.together(stacks)) == [
        "rank 0 is stopped (as by SIGSTOP, or by a debugger)",
        "2 ranks [1-2] sleep (in ep_poll)",
    ]
    assert merge.tree(stacks) == ["[0-2]", *merge.lines_of(merge.together(stacks))]
    assert merge.tree([]) == []


def test_too_many_places_are_cut():
    stacks = [stack(r, ("/a.py", r + 1, f"f{r}")) for r in range(20)]
    lines = merge.lines_of(merge.together(stacks))
    assert len(lines) == 10
    assert lines[-1] == "11 more ranks [9-19] are elsewhere"
    assert len(merge.lines_of(merge.together(stacks), 20)) == 20


def test_the_tree_parts_where_ranks_do():
    common = ("/a.py", 1, "<module>")
    stacks = [stack(r, ("/a.py", 5, "f"), common) for r in (0, 2)]
    stacks.append(stack(1, ("/a.py", 6, "g"), common))
    assert merge.tree(stacks) == [
        "[0-2]",
        "<module> (/a.py:1)",
        "  [0,2]",
        "  f (/a.py:5)",
        "  [1]",
        "  g (/a.py:6)",
    ]


FRAMES = st.lists(
    st.tuples(
        st.sampled_from(["/a.py", f"{SITE}/torch/x.py", "/usr/lib/python3.11/t.py", "<string>"]),
        st.integers(0, 3),
        st.sampled_from(["f", "_g", "<module>", "wrapper"]),
    ),
    max_size=4,
)


@settings(deadline=None)
@given(st.lists(st.tuples(FRAMES, st.sampled_from(["S", "R"])), max_size=12), st.integers(1, 12))
def test_every_rank_appears_once(parts, most):
    stacks = [
        stack(r, *frames, state="" if frames else "is gone", letter=letter)
        for r, (frames, letter) in enumerate(parts)
    ]
    groups = merge.together(stacks)
    assert sorted(r for group in groups for r in group.ranks) == list(range(len(parts)))
    lines = merge.lines_of(groups, most)
    assert len(lines) <= most
    told = []
    for line in lines:
        word = line.split("[")[1].split("]")[0] if line[0].isdecimal() else line.split()[1]
        told += parse_ranks(word)
    assert sorted(told) == list(range(len(parts)))
    leaves = [line.strip() for line in merge.tree(stacks) if line.strip().startswith("[")]
    if stacks:
        assert parse_ranks(leaves[0].strip("[]")) == set(range(len(parts)))
    data = [s.as_dict() for s in stacks]
    assert [merge.from_dict(d) for d in data] == stacks
    text = merge.format(data, first=5)
    groups = merge.together(merge.from_dict(d, 5) for d in data)
    assert all(line in text for line in merge.lines_of(groups, 12))


TORCH = f"{SITE}/torch/c10d.py"


@pytest.mark.parametrize(
    "wrapper",
    ["wrapper", "wrapped", "inner", "decorated", "decorate_context", "inner_wrapper", "<lambda>",
     "new_func", "fn", "func", "wrapper_set_stance", "_engine_run", "__call__"],
)  # fmt: skip
def test_wrappers_and_private_functions_are_passed_over(wrapper):
    calls = (TORCH, 5, wrapper), (TORCH, 9, "all_reduce"), OWN
    assert merge.said_of(stack(0, *calls)) == "waits in all_reduce (train.py:7)"


def test_groups_of_several_nodes_are_joined():
    waits, runs = (
        merge.Together("waits in f (a.py:1)", (0, 4)),
        merge.Together("is in f (a.py:1)", (3,)),
    )
    other = merge.Together("is stopped", (2,))
    both = merge.Together("waits in f (a.py:1)", (0, 3, 4))
    assert merge.joined([waits, runs, other]) == merge.joined([runs, other, waits]) == [other, both]
    assert merge.joined([runs, other]) == [other, runs]


def test_what_group_stacks_gives_is_written_whole():
    known = Stack(1, 11, "", "S", (OWN,), native=("poll (libc.so)", "f"))
    held = Stack(0, None, "is stopped", "T")
    assert [merge.from_dict(s.as_dict()) for s in (held, known)] == [held, known]
    assert merge.from_dict(known.as_dict(), 4).rank == 5
    assert (
        merge.format([held.as_dict(), known.as_dict()], 2)
        == """\
rank 2 is stopped
rank 3 is in train (train.py:7)

[2-3]
  [2]
  rank 2 is stopped
  [3]
  train (/home/me/train.py:7)

rank 3 with native code, the innermost first:
  poll (libc.so)
  f
"""
    )
    assert merge.format([]) == "\n"
