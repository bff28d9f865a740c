"""`--ranks-template`: processes that tests start by `spawn` are forks of the spare.

Theory of operation. `multiprocessing.get_context("spawn").Process` is what
`torch.multiprocessing.spawn`, `start_processes` and torch's `MultiProcessTestCase` start their
processes by. Its `_Popen` says how a process comes to be; here that becomes a fork of the spare, in
which no test has run and all test modules are imported. The child gets what a spawned one gets, by
`multiprocessing`'s own means: the preparation data and the pickled process object in a pipe,
descriptors beside them, the resource tracker. The spare reaps it, and writes its exit code into a
pipe, as the fork server of `multiprocessing` does; so all that waits for processes works unchanged.

What cannot be the same: the child's parent is the spare, not the test's process.
"""

from __future__ import annotations

import os
import time
from importlib import import_module
from multiprocessing import popen_forkserver, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# What the standard library's own start methods are made of, of which there are no types.
context: Any = import_module("multiprocessing.context")
forkserver: Any = import_module("multiprocessing.forkserver")
tracking: Any = import_module("multiprocessing.resource_tracker")
main: Any = vars(spawn)["_main"]

STATUS = 4  # which of the descriptors that a process is given is its status pipe

_before = context.SpawnProcess.__dict__["_Popen"]


def begin(process: Callable[[tuple[int, ...]], None]) -> None:
    """Have processes of the start method `spawn` come from the spare.

    process: has it start one; see `Spare.process`.
    """
    _Popen.ask = staticmethod(process)
    context.SpawnProcess._Popen = staticmethod(_Popen)


def end() -> None:
    """Undo `begin`."""
    context.SpawnProcess._Popen = _before


class _Popen(popen_forkserver.Popen):
    """A process of `multiprocessing` that the spare starts."""

    method = "spawn"
    ask: Any

    def _launch(self, process_obj: Any) -> None:
        inherited: Any = super()  # of which there are no types either
        before = forkserver.connect_to_new_process
        forkserver.connect_to_new_process = self._connect
        try:
            inherited._launch(process_obj)
        finally:
            forkserver.connect_to_new_process = before

    def _connect(self, fds: list[int]) -> tuple[int, int]:
        """Have a process started; gives where it tells how it ends, and reads what it is.

        fds: those that its arguments refer to.
        """
        status_read, status_write = os.pipe()
        child_read, write = os.pipe()
        try:
            self.ask((0, 1, 2, child_read, status_write, tracking.getfd(), *fds))
        finally:
            os.close(child_read)
            os.close(status_write)
        return status_read, write


def told(status_write: int, number: int) -> None:
    """Write the pid of a process, and later its exit code, into its pipe."""
    try:
        forkserver.write_signed(status_write, number)
    except OSError:
        pass  # nobody waits for it any more


def be_process(fds: list[int], variables: dict[str, str], spare: int) -> int:
    """Be the process that `_launch` asked for, in a fork of the spare; gives its exit code.

    fds: its standard input, output and error, where its description is read, its status pipe, the
    resource tracker's, and those that its arguments refer to. variables: its environment.
    spare: the pid of the spare, whose end is its own.
    """
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    from procession.system.prctl import die_with_parent

    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
        os.close(fd)
    described, status_write, tracker, *inherited = fds[3:]
    if not die_with_parent(spare):
        return 1
    os.close(status_write)
    tracking._resource_tracker._fd = tracker
    forkserver._forkserver._inherited_fds = inherited
    return main(described, os.dup(described))
