"""What a test leaves behind: processes below a rank, and threads that go on."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings

from procession.system.processes import is_dying

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

ENDING_SECONDS = 0.5  # that a process has which is about to end when its test does
LOOK_AGAIN = 0.01
EXEC_SECONDS = 0.2  # in which a process that is just being replaced (exec) has a command again
EXEC_LOOKS = 20


def forked() -> int:
    """Fork this process; gives 0 in the child, else its pid."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with warnings.catch_warnings():  # of threads that a fork does not have; see the docs
        warnings.simplefilter("ignore")
        return os.fork()


def children_of(pid: int) -> list[int]:
    """List the children of all threads of a process."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as f:
                found += map(int, f.read().split())
    except OSError:
        pass  # it is gone
    return found


def described(pid: int) -> str:
    """Name a process: its number and its command."""
    words = ""
    for _ in range(EXEC_LOOKS):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            pass  # it is gone
        if words or is_dying(pid):
            break
        time.sleep(EXEC_SECONDS / EXEC_LOOKS)
    return f"pid {pid} ({words[:200] or 'a process that has ended by now'})"


def going_on() -> list[str]:
    """Name the threads for whose end this process will wait."""
    main = threading.main_thread()
    return [t.name for t in threading.enumerate() if t is not main and not t.daemon]


def helpers() -> list[int]:
    """List the processes that Python ends with this one, or that end by themselves after it.

    They are the daemonic processes of `multiprocessing`, its own helpers, and the workers of the
    executors of `concurrent.futures`.
    """
    found: list[Any] = []
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None:
        found += [each.pid for each in process.active_children() if each.daemon]
    executors: Any = sys.modules.get("concurrent.futures.process")
    for thread in list(getattr(executors, "_threads_wakeups", ())):
        found += list(getattr(thread, "processes", None) or ())
    for module, name, attribute in (
        ("multiprocessing.resource_tracker", "_resource_tracker", "_pid"),
        ("multiprocessing.forkserver", "_forkserver", "_forkserver_pid"),
    ):
        owner = getattr(sys.modules.get(module), name, None)
        found.append(getattr(owner, attribute, None))
    return [pid for pid in found if pid is not None]


def left_behind(parent: int, known: Collection[int]) -> list[str]:
    """Name the processes below `parent` that run and are not known: nobody is going to end them.

    One that is about to end by itself has a moment for that.
    """
    deadline = time.monotonic() + ENDING_SECONDS
    while left := [p for p in children_of(parent) if p not in known and not is_dying(p)]:
        if time.monotonic() > deadline:
            return [described(pid) for pid in left]
        time.sleep(LOOK_AGAIN)
    return []
