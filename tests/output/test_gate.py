"""What the console does not show: consequences of a failure, and what the report says again."""

import pytest
from following import Rank, following, piped, until

from seams.output import Follower, Gate

TRACEBACK = """\
Traceback (most recent call last):
  File "a.py", line 9, in <module>
    main()
  File "a.py", line 5, in main
    raise ValueError("no")
ValueError: no
"""
CHAINED = f"""{TRACEBACK}
During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 11, in <module>
    raise KeyError(1)
KeyError: 1
"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 2, in <module>
  | ExceptionGroup: two (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: no
    +------------------------------------
"""
SYNTAX = "  File \"a.py\", line 3\n    f(\n     ^\nSyntaxError: '(' was never closed\n"
CRASH = """\
Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "a.py", line 3 in crash
  File "a.py", line 9 in <module>

Extension modules: numpy.core (total: 1)
"""


POOL = f"""\
multiprocessing.pool.RemoteTraceback:\x20
\"\"\"
{TRACEBACK}\"\"\"

The above exception was the direct cause of the following exception:

{TRACEBACK}"""
DEEP = """\
Traceback (most recent call last):
  File "a.py", line 1, in f
  [Previous line repeated {} more times]
RecursionError: maximum recursion depth exceeded
"""


def torch(text):
    """Write it as torch does, with the number of the rank before each line."""
    return "".join(f"[rank1]: {line}\n" for line in text.splitlines())


AROUND = (b"[1] it was logged", b"[1]  20% ", b"[1] step 4 ")


def logged(text):
    """Leave out the outermost frame: the exception was logged on its way."""
    lines = text.splitlines(keepends=True)
    return "".join([lines[0], *lines[3:]])


@pytest.fixture
def output():
    """Give a follower with a gate, who looks at its console, and the stderr of rank 1."""
    with piped() as (console, viewer), following(console) as plain:
        plain.close()
        follower = Follower(console, console, gate=Gate())
        with Rank(follower, 1, "err") as rank:
            yield follower, viewer, rank
        follower.close()


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("told", "written"),
    [
        (TRACEBACK, TRACEBACK),
        (TRACEBACK, torch(TRACEBACK)),
        (TRACEBACK, logged(TRACEBACK)),
        (CHAINED, CHAINED),
        (CHAINED, torch(CHAINED)),
        (GROUP, GROUP),
        (SYNTAX, SYNTAX),
        ("", CRASH),
        (TRACEBACK, f"{logged(TRACEBACK)}it was logged\n{TRACEBACK}" * 2),
        (CHAINED, f"{logged(TRACEBACK)}{torch(CHAINED)}"),
        (DEEP.format(989), DEEP.format(988)),
        (TRACEBACK, f"\r 10% \r 20% {TRACEBACK}"),
        (TRACEBACK, f"step 4 {TRACEBACK}"),
        (POOL, POOL),
    ],
)
def test_what_the_report_says_is_not_said_before_it(output, told, written, before):
    follower, viewer, rank = output
    if told == SYNTAX and not before:
        return  # nothing shows that it begins
    if before:
        follower.ask(lambda gate: gate.tell(1, told))
    rank.write(b"one\n" + written.encode() + b"two\n")
    if not before:
        viewer.until(b"[1] one\n")
        follower.ask(lambda gate: gate.tell(1, told))
    viewer.until(b"[1] two\n")
    said = [line for line in viewer.look().splitlines() if line not in AROUND]
    assert said == [b"[1] one", b"[1] two"]


@pytest.mark.parametrize("told", [None, TRACEBACK.replace("no", "another")])
@pytest.mark.parametrize("written", [TRACEBACK, f"log | {TRACEBACK}", f"{POOL}ValueError: no\n"])
def test_when_in_doubt_it_is_shown(output, told, written):
    follower, viewer, rank = output
    if told is not None:
        follower.ask(lambda gate: gate.tell(1, told))
    rank.write(written.encode())
    until(lambda: viewer.look().count(b"\n") == written.count("\n"))
    assert viewer.look() == b"".join(b"[1] %s\n" % line for line in written.encode().splitlines())


def test_what_was_shown_of_a_line_is_not_shown_again(output):
    follower, viewer, rank = output
    rank.write(b"step 4 ")
    viewer.until(b"step 4 ")
    follower.ask(lambda gate: gate.tell(1, TRACEBACK))
    rank.write(f"{TRACEBACK}two\n".encode())
    viewer.until(b"[1] two\n")
    assert viewer.look() == b"[1] step 4 \n[1] two\n"


def test_consequences(output):
    follower, viewer, failed = output
    ranks = Rank(follower, 0, "err"), Rank(follower, 2, "err"), Rank(follower, 2)
    with ranks[0] as other, ranks[1] as third, ranks[2] as saves:
        for rank in (failed, other, third):
            rank.write(b"works\n")
        viewer.until(b"[2] works\n")
        until(lambda: viewer.look().count(b"\n") == 3)
        follower.ask(lambda gate: gate.close([1]))
        failed.write(b"failed\n")
        viewer.until(b"[1] failed\n")
        other.write(b"a line\nand a part")
        third.write(torch(TRACEBACK).encode() * 2)
        saves.write(b"saved\n")
    assert follower.drain(10)
    shown = viewer.look()
    assert (shown.count(b"\n"), shown.count(b"[2] saved\n")) == (5, 1)
    held = follower.take_held([])
    assert {rank: (each.lines, [*each.kinds]) for rank, each in held.items()} == {
        0: (2, []),
        2: (12, ["ValueError: no"]),
    }
    assert not follower.take_held([])


def test_who_was_not_the_first_after_all_is_counted(output):
    """Its traceback was left out, and the report has that of another one."""
    follower, viewer, rank = output
    follower.ask(lambda gate: gate.close([1]))
    follower.ask(lambda gate: gate.tell(1, TRACEBACK))
    rank.write(f"one\n{TRACEBACK}two\n".encode())
    viewer.until(b"[1] two\n")
    assert follower.drain(10)
    held = follower.take_held([0])
    assert (held[1].lines, [*held[1].kinds]) == (TRACEBACK.count("\n"), ["ValueError: no"])


def test_a_crash_that_was_held_back_in_parts(output):
    follower, viewer, failed = output
    with Rank(follower, 0, "err") as other:
        follower.ask(lambda gate: gate.close([1]))
        for n, line in enumerate(CRASH.splitlines(keepends=True)):
            other.write(line.encode())
            failed.write(b"%d\n" % n)
            viewer.until(b"[1] %d\n" % n)
    follower.ask(lambda gate: gate.tell(0, ""))
    follower.ask(lambda gate: gate.release([0], 0.0))
    assert follower.drain(10)
    assert b"[0]" not in viewer.look()


def test_who_failed_at_the_same_time_is_shown(output):
    follower, viewer, failed = output
    with Rank(follower, 0, "err") as other:
        follower.ask(lambda gate: gate.close([1]))
        other.write(b"mine\n" + TRACEBACK.encode())
        failed.write(b"failed\n")
        viewer.until(b"[1] failed\n")
    follower.ask(lambda gate: gate.tell(0, TRACEBACK))
    follower.ask(lambda gate: gate.release([0], 0.0))
    assert follower.drain(10)
    assert viewer.look() == b"[1] failed\n[0] mine\n"
    assert not follower.take_held([0])
