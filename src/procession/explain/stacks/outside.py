"""Looks at processes that cannot answer: programs that our bootstrap does not run.

With py-spy (the extra `procession[stacks]`), the stacks of Python programs are read from outside,
where the kernel lets it: that needs the right to trace (CAP_SYS_PTRACE, or a Yama scope of 0).
Without it, or for native programs, there is what the kernel tells.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from procession.explain.stacks.text import Frame, Stack, Thread, own_frames
from procession.system.files import read
from procession.values.base import Value, cast

NONE_LEFT = ("is gone",)
MOST_AT_ONCE = 4


class Seen(Value):
    """What py-spy said of a process: its threads, the number of the main one, or why not."""

    threads: tuple[Thread, ...] = ()
    main: int = 0
    fault: str = ""


def find_pyspy() -> str | None:
    """Give the path of py-spy, where it is installed."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy")


def look(stacks: Sequence[Stack], seconds: float, *, native: bool = False) -> list[Stack]:
    """Say more of those that have shown no stack, within `seconds`; native: and of all."""
    if native:
        return _with_native(look(stacks, seconds), seconds)
    todo = [s for s in stacks if not s.frames and not s.text and s.state not in NONE_LEFT]
    if not todo:
        return list(stacks)
    spy = find_pyspy()
    seen = {} if spy is None else _spied(spy, [s.pid for s in todo if s.pid], seconds)
    return [_with(s, seen.get(s.pid or 0), spy) if s in todo else s for s in stacks]


def _with_native(stacks: Sequence[Stack], seconds: float) -> list[Stack]:
    spy = find_pyspy()
    if spy is None:
        why = "native frames need py-spy: pip install 'procession[stacks]'"
        return [stack.__replace__(native=(why,)) for stack in stacks]
    pids = [s.pid for s in stacks if s.pid and s.state not in NONE_LEFT]
    seen = _spied(spy, pids, seconds, "--native")

    def more(stack: Stack) -> Stack:
        found = seen.get(stack.pid or 0)
        if found is None:
            return stack
        if not found.threads:
            return stack.__replace__(native=(f"py-spy: {found.fault}",))
        lines = tuple(f"{name} ({file}:{line})" if line else f"{name} ({file})"
                      for file, line, name in found.threads[found.main].frames)  # fmt: skip
        return stack.__replace__(native=lines, threads=found.threads)

    return [more(stack) for stack in stacks]


def _with(stack: Stack, seen: Seen | None, spy: str | None) -> Stack:
    if seen is not None and seen.threads:
        frames = own_frames(seen.threads[seen.main].frames)
        if frames:
            return stack.__replace__(frames=frames, threads=seen.threads, state="")
    kernel = (read(f"/proc/{stack.pid}/stack") or "").splitlines()
    why = "" if spy is not None else "; its stack needs py-spy: pip install 'procession[stacks]'"
    if seen is not None and seen.fault:
        why = f"; py-spy: {seen.fault}"
    return stack.__replace__(state=f"{stack.state}{why}", kernel=tuple(kernel))


def _spied(spy: str, pids: list[int], seconds: float, *options: str) -> dict[int, Seen]:
    """Run py-spy on some processes, a few at a time."""
    ends = time.monotonic() + seconds
    found: dict[int, Seen] = {}
    while pids:
        now, pids = pids[:MOST_AT_ONCE], pids[MOST_AT_ONCE:]
        running: list[tuple[int, subprocess.Popen[bytes]]] = []
        for pid in now:
            try:
                command = [spy, "dump", "--json", *options, "--pid", str(pid)]
                running.append((pid, _started(command)))
            except OSError as e:
                found[pid] = Seen(fault=str(e))
        for pid, process in running:
            try:
                out, err = process.communicate(timeout=max(0.0, ends - time.monotonic()))
                found[pid] = read_spied(pid, out, err)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                found[pid] = Seen(fault="it took too long")
    return found


def _started(command: list[str]) -> subprocess.Popen[bytes]:
    # A Ctrl-C at the terminal is not for it.
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def read_spied(pid: int, out: bytes, err: bytes) -> Seen:
    """Read what `py-spy dump --json` has written; it takes any bytes."""
    try:
        said: Any = json.loads(out)
        threads: list[Thread] = []
        main = -1
        for i, thread in enumerate(cast("list[Any]", said)):
            frames: list[Frame] = [
                (str(f["filename"]), int(f["line"]), str(f["name"])) for f in thread["frames"]
            ]
            threads.append(Thread(str(thread["thread_name"] or thread["thread_id"]), tuple(frames)))
            if thread["thread_name"] == "MainThread" or thread["os_thread_id"] == pid:
                main = i
        if threads:
            return Seen(tuple(threads), main % len(threads))
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    lines = [line.strip() for line in err.decode(errors="replace").splitlines() if line.strip()]
    if any("ermission" in line for line in lines):
        return Seen(fault="not permitted (see CAP_SYS_PTRACE and kernel.yama.ptrace_scope)")
    return Seen(fault=(lines or ["it said nothing"])[0].removeprefix("Error: ")[:200])
