"""The agent carries out the rules: all orders of little, and chance for more, on a virtual clock.

PROCESSION_INTERLEAVINGS (700): how many groups by chance. PROCESSION_FUZZ_SEED (1): the first.
"""

import itertools
import os
import random
from signal import SIGCONT, SIGSTOP

import pytest

from seams.rules import Phase
from seams.values import SIMULTANEOUS

from .kernel import AGENT, SECOND
from .simulated import KILL, LARGEST, STOP, USER, Plan, World

COUNT = int(os.environ.get("PROCESSION_INTERLEAVINGS", "700"))
FIRST = int(os.environ.get("PROCESSION_FUZZ_SEED", "1"))
TAKEN_DOWN = 10_000_000  # ns in which a silent death shows
NEAR = 10_000  # ns between two things that the agent does at once
SLACK = SECOND // 2
NEVER = float("inf")
LEFT = ["epoll", "eventfd", "link", "link", "owner", "pipe", "pipe"]  # descriptors at the end


def words_of(nproc, **others):
    given = {
        "nproc": nproc, "attempt": 0, "patient": False, "single": False,
        "python": True, "function": True, "alone": True, "stacks": True, "warm": False, **others,
    }  # fmt: skip
    largest = {b"D": 0, b"F": 64 << 10, b"V": LARGEST, b"E": LARGEST}
    given["may"] = {"largest": largest, "pickles": True} if given["python"] else {}
    times = {"signal": int(STOP), "grace": 2.0, "patience": 0.0, "notice": 0.0, "linger": 0.1,
             "reap": 5.0, "start": 30.0}  # fmt: skip
    given["limits"] = times | others.get("limits", {})
    return given


def run(world):
    """Run a group to its end, and compare what the agent did with what truly happened."""
    world.launcher.on_swept = lambda: judge_cause(world)
    world.run()
    launcher, kernel = world.launcher, world.kernel
    assert kernel.below(AGENT) == [], "it is left"
    assert not [p.pid for p in kernel.table.values() if p.ours], "it was never reaped"
    if not launcher.lost:
        assert launcher.life.phase.final
        assert not launcher.life.left_behind
        assert all(later == world.states[-1] for later in world.states[launcher.told :])
        assert sorted(file.kind for file in kernel.files.values()) == LEFT
    for process in world.ranks:
        judge_requests(launcher, process)
    if not world.words["single"]:
        for attempt in {process.attempt for process in world.ranks}:
            judge_signals(world, attempt)
    return world


def judge_cause(world):
    """Those that failed by themselves are named, and the first of them is the first."""
    life, gone = world.launcher.life, world.launcher.gone
    hung = {words[0] for _, what, *words in world.launcher.wished if what == "hung"}
    failed = {}
    for rank, known in enumerate(life.ranks):
        process = world.by_rank.get(rank)
        if known.start_failed or rank in hung or process is None:
            continue
        if process.attempt != life.attempt + known.attempt:
            continue
        by_us = process.first(STOP, KILL)
        told = known.reported and not known.reported_ok
        at, doubt = (known.failed_at, 0) if told else gone[rank]
        if process.lived_at:
            doubt += SIMULTANEOUS
        if process.failed_at is None:
            assert known.failed_at is None, f"rank {rank} did not fail"
        elif (process.zombie_at if process.silent else process.failed_at) < by_us - NEAR:
            assert known.failed_at is not None, f"rank {rank} failed"
        elif process.failed_at > by_us + TAKEN_DOWN * process.silent:
            assert known.failed_at is None, f"rank {rank} was ended by the group"
        if known.failed_at is not None:
            # One that dies just after the signal may have been dying before.
            late = TAKEN_DOWN if process.silent and process.failed_at >= by_us else 0
            assert at - doubt - NEAR <= process.failed_at <= at + late + NEAR
            failed[rank] = process, at - doubt
    if failed and life.failures[0] in failed:
        first = life.failures[0]
        cause, reported = failed[first][0], life.ranks[first].reported
        # While large values wait for the launcher, channels are not read.
        heard = not any(process.plan.fate == "values" for process in world.ranks)
        for process, earliest in failed.values():
            if earliest > life.ranks[first].failed_at:
                assert cause.failed_at <= process.failed_at, "another one was first"
            if reported and heard and process.channel is not None and process.finished_at is None:
                # Else its channel was seen to end before the cause had reported.
                assert cause.failed_at <= max(process.failed_at, process.closed_at) + NEAR


def judge_requests(launcher, process):
    """A signal reaches the process that the rank had when it was wanted; all are suspended."""
    asked = [at for at, *wish in launcher.wished if wish == ["signal", process.rank]]
    got = [number for number, _ in process.sent if number == USER]
    assert len(got) <= sum(at >= process.began for at in asked)
    for wanted, since, until in launcher.suspended:
        if process.began < wanted and process.ended_at > until:
            assert process.first(SIGSTOP) <= since
            assert any(at >= until for number, at in process.sent if number == SIGCONT)


def judge_signals(world, attempt):
    """SIGKILL comes after the grace period, the stop signal after the stacks, within 150 ms."""
    launcher, words = world.launcher, world.words
    everybody = [p for p in world.kernel.all if p.attempt == attempt]
    ranks = [p for p in everybody if p.rank is not None]
    stop = min((p.first(STOP) for p in everybody), default=NEVER)
    stops = [wish[1] for _, *wish in launcher.wished if wish[0] == "stop"]
    failed = [p.failed_at for p in ranks if p.failed_at is not None]
    if not launcher.lost and not any("kill" in wish for wish in stops):
        least = min([words["limits"]["grace"], *(wish.get("grace", 9.0) for wish in stops)])
        reasons = [at for at, *wish in launcher.wished if wish[0] in ("stop", "hung")]
        began = min([stop, *failed, *reasons], default=NEVER)
        latest = stop + words["limits"]["grace"] * SECOND + SLACK
        for process in everybody:
            kill = process.first(KILL)
            still = sum(max(0, min(kill, b) - max(stop, a)) for _, a, b in launcher.suspended)
            if kill < NEVER:
                assert kill >= began + least * SECOND + still, f"{process.pid} had too little time"
            if process.first(STOP) < NEVER:
                stood = sum(b - a for a, _, b in launcher.suspended)
                assert min(process.ended_at, kill) <= latest + stood, "it had too much time"
    before = {what for at, what, *_ in launcher.wished if at <= stop}
    if before & {"stop", "suspend", "lost"} or attempt in launcher.faulty or not failed:
        return
    for process in ranks if words["stacks"] and words["python"] else ():
        if process.first(STOP) == stop < NEVER and process.finished_at is process.failed_at is None:
            asked = max((at for at in process.asked if at <= stop), default=-NEVER)
            assert stop - asked <= 0.16 * SECOND, "it was not asked for its stacks just before"


# -- all orders of little


class First:
    """What takes the first of all possibilities."""

    def choice(self, options):
        return options[0]

    def random(self):
        return 1.0


FATES = ("finishes", "raises", "dies", "lives")
ORDERS = sorted(set(itertools.permutations("00112")))
WISHES = {
    "nothing": [],
    "stop": [("stop", {})],
    "kill": [("stop", {"kill": True})],
    "suspend": [("suspend",)],
    "lost": [("lost",)],
}


@pytest.mark.parametrize("wish", WISHES)
def test_all_orders(wish):
    """Of two ranks: when each is ready, and ends; and of what the launcher wants."""
    for number, (order, fates) in enumerate(
        itertools.product(ORDERS, itertools.combinations_with_replacement(FATES, 2))
    ):
        gap = (0.0003, 0.02)[number // 10 % 2]
        times = {who: [0.001 + gap * i for i, w in enumerate(order) if w == who] for who in "012"}
        plans = []
        for rank, fate in enumerate(fates):
            ready, end = times[str(rank)]
            stops = None if number % 3 == rank else 0.001
            plans.append(Plan(ready=ready, after=end - ready, fate=fate, stops=stops))
        wishes = [(times["2"][0], *each) for each in WISHES[wish]]
        wishes.append((100.0, "stop", {}))
        run(World(First(), words_of(2), plans.__getitem__, wishes))


# -- chance for more


def plan_by(chance):
    def plan(_rank):
        far = chance.choice((0.0, 0.001, 0.01, 0.5, 20.0))
        return Plan(
            lead=chance.choice((0.0001, 0.0001, 0.005)),
            ready=chance.choice((0.0002, 0.01, 0.3) * 20 + (40.0,)),
            starts=chance.random() > 0.01,
            fate=chance.choice((*FATES * 2, "finishes", "finishes", "values", "lies")),
            after=far * chance.choice((1.0, chance.uniform(0.5, 1.5))),
            exits=chance.choice((0.0, 0.001, 0.1, 1.0)),
            stops=chance.choice((0.0, 0.001, 0.3, None)),
            says=chance.random() < 0.3,
            notices=chance.random() < 0.5,
            kill=chance.choice((0.0, 0.001, 0.05)),
            dump=chance.choice((0.001, 0.02, 1.0, None)),
            status=chance.choice((11, 6, 9, 3 << 8)),
            daemons=chance.choice(((), (), (), (True,), (False, True))),
        )

    return plan


def wishes_by(chance, nproc):
    whats = [
        ("stop", {}), ("stop", {"kill": True}), ("stop", {"grace": 0.1}), ("stop", {"notice": 0.5}),
        ("stop", {"signal": int(STOP)}), ("impatience",), ("suspend",), ("look", 1, 0.3), ("lost",),
        *(("signal", rank) for rank in range(nproc)),
        *(("strike", rank) for rank in range(nproc)),
        *(("hung", rank) for rank in range(nproc)),
    ]  # fmt: skip
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        seconds = chance.choice((0.002, 0.01, 0.5, 3.0)) * chance.uniform(0.1, 2.0)
        yield seconds, *chance.choice(whats)
    yield 100.0, "stop", {}


def by_chance(seed):
    chance = random.Random(seed)
    nproc = chance.randint(1, 4)
    python = chance.random() < 0.8
    times = {
        "grace": chance.choice((0.2, 2.0)),
        "patience": chance.choice((0.0, 1.0)),
        "notice": chance.choice((0.0, 0.5)),
        "linger": chance.choice((None, 0.1)),
    }
    restarts = chance.choice((0, 0, 1, 3))
    words = words_of(
        nproc, limits=times, python=python,
        function=python and chance.random() < 0.7, patient=times["patience"] > 0,
        single=chance.random() < 0.3, alone=chance.random() < 0.8, stacks=chance.random() < 0.7,
    )  # fmt: skip
    slow = chance.choice(((0.0, 0.0005), (0.0005, 0.02), (0.001, 3.0)))
    wishes = wishes_by(chance, nproc)
    return World(chance, words, plan_by(chance), wishes, slow=slow, restarts=restarts)


def test_by_chance():
    failed, ends = [], dict.fromkeys(Phase, 0)
    for seed in range(FIRST, FIRST + COUNT):
        try:
            ends[run(by_chance(seed)).launcher.life.phase] += 1
        except Exception as e:
            failed.append(f"PROCESSION_FUZZ_SEED={seed}: {type(e).__name__}: {e}")
    assert not failed, "\n".join([f"{len(failed)} of {COUNT}", *failed[:20]])
    if COUNT >= 700:  # all of it was there
        assert min(ends[Phase.SUCCEEDED], ends[Phase.FAILED], ends[Phase.STOPPED]) > COUNT // 10
