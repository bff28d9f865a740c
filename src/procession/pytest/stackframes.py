"""The stacks of the ranks of a test, as its report has them.

pytest's own frames are left out of them: people look for what the test has called.
"""

from __future__ import annotations

from procession.agent.stacks import StackTaker
from procession.explain.stacks.text import from_dict, said_of, stack_of
from procession.system.eventloop import EventLoop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from procession.agent.stacks import Taken

RUNNERS = ("/_pytest/", "/pluggy/", "/procession/pytest/")  # files of what calls tests


def _is_runner(file: str) -> bool:
    return any(each in file for each in RUNNERS)


def of_test(frames: list[Any]) -> list[Any]:
    """Leave of a stack (the innermost frame first) what the test has called, if it has begun.

    Of a fixture of ours (`gather`) that it has called, one frame remains.
    """
    runners = [_is_runner(frame[0]) for frame in frames] + [True]
    first = runners.index(False) if False in runners else 0
    end = runners.index(True, first)
    if not runners[first:].count(False) or (first and end == len(frames)):
        return frames  # it runs no test
    return frames[max(0, first - 1) : end]


def noted(stacks: list[dict[str, Any]], ranks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Note with each rank of a test where it is; gives the stacks without pytest's frames.

    Ranks that are done with it are left out, unless all are.
    """
    if not all(told["done"] for told in ranks):
        stacks = [each for each in stacks if not ranks[each["rank"]]["done"]]
    found = [{**each, "frames": of_test(each["frames"])} for each in stacks]
    for data in found:
        stack = from_dict(data)
        ranks[stack.rank]["where"] = said_of(stack)
    return found


def of_processes(pids: Mapping[int, int], seconds: float) -> list[dict[str, Any]]:
    """Take the stacks of processes that offer them (`worker.stackfile`). pids: by rank."""
    loop = EventLoop()
    stacks = StackTaker(loop, lambda _: True)
    seen: list[list[Taken]] = []
    try:
        stacks.take_stacks(lambda: sorted(pids.items()), seconds, seen.append)
        while not seen:
            loop.turn()
    finally:
        stacks.close()
        loop.close()
    return [stack_of(t.rank, t.pid, t.state, t.letter, t.text).as_dict() for t in seen[0]]


def without_runner(text: str) -> str:
    """Leave the frames that are not the test's out of the stacks that a crash has printed."""
    kept: list[str] = []
    runner = False
    for line in text.splitlines(keepends=True):
        runner = line.startswith("  File ") and (runner or _is_runner(line))
        if not runner:
            kept.append(line)
    return "".join(kept)
