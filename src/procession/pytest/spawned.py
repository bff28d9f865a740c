"""`--ranks-template`: processes that tests start by `spawn` are forks of the stem.

Theory of operation. `multiprocessing.get_context("spawn").Process` is what
`torch.multiprocessing.spawn`, `start_processes` and torch's `MultiProcessTestCase` start their
processes by. Its `_Popen` says how a process comes to be; here that becomes a fork of the stem, in
which no test has run and all test modules are imported. The child gets what a spawned one gets, by
`multiprocessing`'s own means: the preparation data and the pickled process object in a pipe,
descriptors beside them, the resource tracker. The stem reaps it, and writes its exit code into a
pipe, as the fork server of `multiprocessing` does; so all that waits for processes works unchanged.

What cannot be the same: the child's parent is the stem, not the test's process.
"""

from __future__ import annotations

import io
import os
import time
from importlib import import_module
from multiprocessing import popen_forkserver, reduction, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# What the standard library's own start methods are made of, of which there are no types.
context: Any = import_module("multiprocessing.context")
forkserver: Any = import_module("multiprocessing.forkserver")
tracking: Any = import_module("multiprocessing.resource_tracker")
util: Any = import_module("multiprocessing.util")
main: Any = vars(spawn)["_main"]

STATUS = 4  # which of the descriptors that a process is given is its status pipe

_before: Any = None


def begin(process: Callable[[tuple[int, ...]], None]) -> None:
    """Have processes of the start method `spawn` come from the stem.

    process: has it start one; see `Stem.process`.
    """
    global _before

    class Popen(_Popen):
        """A process that is a fork of this session's stem."""

        _ask = staticmethod(process)

    _before = context.SpawnProcess.__dict__["_Popen"]
    context.SpawnProcess._Popen = staticmethod(Popen)


def end() -> None:
    """Undo `begin`."""
    global _before
    if _before is not None:
        context.SpawnProcess._Popen = _before
        _before = None


class _Popen(popen_forkserver.Popen):
    """A process of `multiprocessing` that the stem starts."""

    method = "spawn"
    _ask: Any = None

    def _launch(self, process_obj: Any) -> None:
        body = io.BytesIO()
        context.set_spawning_popen(self)
        try:
            data = spawn.get_preparation_data(process_obj._name)
            reduction.dump(data, body)
            reduction.dump(process_obj, body)
        finally:
            context.set_spawning_popen(None)
        tracking.ensure_running()
        status_read, status_write = os.pipe()
        child_read, write = os.pipe()
        own: Any = self
        nowhere = os.open(os.devnull, os.O_RDWR)
        try:
            streams = (number if _is_open(number) else nowhere for number in range(3))
            given = (*streams, child_read, status_write, tracking.getfd(), *own._fds)
            self._ask(given)
        except BaseException:
            os.close(status_read)
            os.close(write)
            raise
        finally:
            os.close(nowhere)
            os.close(child_read)
            os.close(status_write)
        own.sentinel = status_read
        # The child sees by this end that its parent is gone.
        alive = os.dup(write)
        own.finalizer = util.Finalize(self, util.close_fds, (alive, status_read))
        with open(write, "wb") as f:
            f.write(body.getbuffer())
        own.pid = forkserver.read_signed(status_read)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def told_exit(status_write: int, status: int) -> None:
    """Write how a process ended into its pipe. status: as of waitpid."""
    try:
        forkserver.write_signed(status_write, os.waitstatus_to_exitcode(status))
    except OSError:
        pass  # nobody waits for it any more
    os.close(status_write)


def told_pid(status_write: int, pid: int) -> None:
    """Write the number of a process into its pipe."""
    try:
        forkserver.write_signed(status_write, pid)
    except OSError:
        pass


def be_process(fds: list[int], variables: dict[str, str], stem: int) -> int:
    """Be the process that `_launch` asked for, in a fork of the stem; gives its exit code.

    fds: its standard input, output and error, where its description is read, its status pipe, the
    resource tracker's, and those that its arguments refer to. variables: its environment.
    stem: the pid of the stem, whose end is its own.
    """
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    from procession.system.prctl import die_with_parent

    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
        os.close(fd)
    described, status_write, tracker, *inherited = fds[3:]
    if not die_with_parent(stem):
        return 1
    os.close(status_write)
    tracking._resource_tracker._fd = tracker
    forkserver._forkserver._inherited_fds = inherited
    return main(described, os.dup(described))
