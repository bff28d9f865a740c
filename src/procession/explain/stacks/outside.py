"""Looks at processes that cannot answer: programs that our bootstrap does not run.

With py-spy (the extra `procession[stacks]`), the stacks of Python programs are read from outside,
where the kernel lets it: that needs the right to trace (CAP_SYS_PTRACE, or a Yama scope of 0).
Without it, or for native programs, there is the state of the process.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from subprocess import DEVNULL, TimeoutExpired, run
from typing import Any

from procession.explain.stacks.text import Frame, Stack, own_frames
from procession.values.base import Value, cast

NEEDED = "its stack needs py-spy: pip install 'procession[stacks]'"
MOST_AT_ONCE = 4


class OutsideStack(Value):
    """What py-spy said of a process: the frames of its main thread, or why it shows none."""

    frames: tuple[Frame, ...] = ()
    fault: str = ""


def find_pyspy() -> str | None:
    """Give the path of py-spy, where it is installed."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy")


def look_from_outside(
    stacks: Sequence[Stack], seconds: float, *, native: bool = False
) -> list[Stack]:
    """Say more of those that have shown no stack, within `seconds`; native: and of all."""
    there = [stack for stack in stacks if stack.state != "is gone"]
    todo = there if native else [stack for stack in there if not stack.frames and not stack.text]
    spy = find_pyspy() if todo else None
    seen: dict[int, OutsideStack] = {}
    if spy is not None:
        seen = _spied(spy, [s.pid for s in todo if s.pid], seconds, *["--native"] * native)
    more = {
        s.rank: _with(s, seen.get(s.pid or 0, OutsideStack(fault=NEEDED)), native) for s in todo
    }
    return [more.get(stack.rank, stack) for stack in stacks]


def _with(stack: Stack, seen: OutsideStack, native: bool) -> Stack:
    if native:
        lines = tuple(f"{name} ({file}:{line})" if line else f"{name} ({file})"
                      for file, line, name in seen.frames)  # fmt: skip
        stack = stack.__replace__(native=lines or (seen.fault,))
    if stack.frames or stack.text:
        return stack
    own = own_frames(tuple(f for f in seen.frames if not native or f[0].endswith((".py", ">"))))
    if own:
        return stack.__replace__(frames=own, state="")
    return stack.__replace__(state=f"{stack.state}; {seen.fault}" if seen.fault else stack.state)


def _spied(spy: str, pids: list[int], seconds: float, *options: str) -> dict[int, OutsideStack]:
    """Run py-spy on some processes, a few at a time."""
    from concurrent.futures import ThreadPoolExecutor

    ends = time.monotonic() + seconds

    def dump(pid: int) -> OutsideStack:
        command = [spy, "dump", "--json", *options, "--pid", str(pid)]
        left = max(0.0, ends - time.monotonic())
        try:  # a Ctrl-C at the terminal is not for it
            done = run(command, stdin=DEVNULL, capture_output=True, timeout=left, check=False,
                       start_new_session=True)  # fmt: skip
        except TimeoutExpired:
            return OutsideStack(fault="py-spy: it took too long")
        except OSError as e:
            return OutsideStack(fault=f"py-spy: {e}")
        return read_spied(pid, done.stdout, done.stderr)

    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        return dict(zip(pids, pool.map(dump, pids), strict=True))


def read_spied(pid: int, out: bytes, err: bytes) -> OutsideStack:
    """Read what `py-spy dump --json` has written; it takes any bytes."""
    try:
        for thread in cast("list[Any]", json.loads(out)):
            if thread["thread_name"] == "MainThread" or thread["os_thread_id"] == pid:
                frames = thread["frames"]
                return OutsideStack(tuple((str(f["filename"]), int(f["line"]), str(f["name"]))
                                  for f in frames))  # fmt: skip
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    lines = [line.strip() for line in err.decode(errors="replace").splitlines() if line.strip()]
    if any("ermission" in line for line in lines):
        return OutsideStack(
            fault="py-spy: not permitted (see CAP_SYS_PTRACE and kernel.yama.ptrace_scope)"
        )
    said = (lines or ["it said nothing"])[0].removeprefix("Error: ")
    return OutsideStack(fault=f"py-spy: {said[:200]}")
