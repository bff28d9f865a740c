"""`--ranks-template`: processes that tests start by `spawn` are forks of a process without tests.

Theory of operation. `multiprocessing.get_context("spawn").Process` is what
`torch.multiprocessing.spawn`, `start_processes` and torch's `MultiProcessTestCase` start their
processes by. Its `_Popen` says how a process comes to be; here that becomes the fork server of
`multiprocessing`, with one difference: the server itself is no new interpreter but a fork of
pytest's process, in which all test modules are imported and no test has run. All else is the work
of `multiprocessing`: the pickled process object, descriptors beside it, exit codes, the resource
tracker. What a spawned process has besides comes with its object: variables, and standard streams.

What cannot be the same: the child's parent is the server, not the test's process.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import time
from importlib import import_module
from multiprocessing import popen_forkserver

from procession.pytest.processes import forked
from procession.system.prctl import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What the standard library's own start methods are made of, of which there are no types.
context: Any = import_module("multiprocessing.context")
forkserver: Any = import_module("multiprocessing.forkserver")
reduction: Any = import_module("multiprocessing.reduction")
tracking: Any = import_module("multiprocessing.resource_tracker")
util: Any = import_module("multiprocessing.util")

_before, _exec = context.SpawnProcess.__dict__["_Popen"], util.spawnv_passfds
_server = forkserver.ForkServer()


def begin_forking() -> None:
    """Have processes of the start method `spawn` be forks of what this process is now."""
    tracking.ensure_running()  # a process like any other
    util.spawnv_passfds = _fork_server
    try:
        _server.set_forkserver_preload([])
        _server.ensure_running()
    finally:
        util.spawnv_passfds = _exec
    context.SpawnProcess._Popen = staticmethod(_Popen)


def end() -> None:
    """Undo `begin`; what is left of the processes ends with the server."""
    context.SpawnProcess._Popen = _before
    if _server._forkserver_pid is not None:
        os.kill(_server._forkserver_pid, signal.SIGKILL)
        _server._stop()


def _fork_server(_path: object, args: list[str], _fds: object) -> int:
    """Fork this process, and run there what a new interpreter would; gives its pid."""
    parent = os.getpid()
    pid = forked()
    if pid:
        return pid
    util.spawnv_passfds = _exec
    try:
        if die_with_parent(parent):
            atexit._clear()  # pyright: ignore[reportPrivateUsage] - what is there is pytest's
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
            gc.collect()
            gc.freeze()  # a collection in a process must not touch, and so copy, what all share
            exec(args[-1], {})
    finally:
        os._exit(1)


class _Popen(popen_forkserver.Popen):
    """A process of `multiprocessing` that the server starts."""

    method = "spawn"

    def _launch(self, process_obj: Any) -> None:
        inherited: Any = super()  # of which there are no types either
        before = forkserver.connect_to_new_process
        forkserver.connect_to_new_process = _server.connect_to_new_process
        try:
            inherited._launch(_Here(process_obj))
        finally:
            forkserver.connect_to_new_process = before


class _Here:
    """A process object that brings along, in its pickle, what else a process has from here."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self._name: str = process._name

    def __reduce__(self) -> tuple[Any, ...]:
        streams = [reduction.DupFd(fd) for fd in range(3)]
        return _there, (_server._forkserver_pid, streams, dict(os.environ), self._process)


def _there(server: int, streams: list[Any], variables: dict[str, str], process: Any) -> Any:
    """Have what a process object has brought along; gives the object."""
    if not die_with_parent(server):
        os._exit(1)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    for number, stream in enumerate(streams):
        fd = stream.detach()
        os.dup2(fd, number)
        os.close(fd)
    return process
