"""`PContext`: ranks that were started together, as torch's elastic agents hold them in hand."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import FrameType
from typing import Any, cast

from procession.elastic import entry, start_processes
from procession.elastic.common import Common, validate_full_rank
from procession.elastic.ended import RunProcsResult
from procession.elastic.errors import ProcessFailure, record
from procession.elastic.logs import DefaultLogsSpecs, LogsDest, LogsSpecs, to_map
from procession.elastic.plan import STOP, command_spec, placement_of
from procession.elastic.ranks import Ranks
from procession.elastic.redirects import redirect_stderr, redirect_stdout
from procession.elastic.subprocess_handler import SubprocessHandler, get_subprocess_handler
from procession.elastic.tail_log import TailLog
from procession.group import Group
from procession.launch import begin
from procession.output.plan import Output
from procession.policy import Std

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "MultiprocessContext",
    "PContext",
    "RunProcsResult",
    "SignalException",
    "Std",
    "SubprocessContext",
    "get_std_cm",
    "to_map",
]

logger = logging.getLogger(__name__)

# Users look for these here, too.
_ALSO = (ProcessFailure, TailLog, get_subprocess_handler, record, start_processes)
_REDIRECTS = (redirect_stdout, redirect_stderr)
_validate_full_rank = validate_full_rank
_get_default_signal = partial(signal.Signals, signal.SIGTERM)
_get_kill_signal = partial(signal.Signals, signal.SIGKILL)


def get_std_cm(
    std_rd: str, redirect_fn: Callable[[str], AbstractContextManager[Any]]
) -> AbstractContextManager[Any]:
    """Give `redirect_fn(std_rd)`; for "", which is the console, one that redirects nothing."""
    return redirect_fn(std_rd) if std_rd else nullcontext()


# -- signals as exceptions

_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"

_replaced: dict[int, Any] = {}  # signal -> what it did before
_holders: weakref.WeakSet[PContext] = weakref.WeakSet()  # those for whose sake it raises
_owner = 0  # the process that they belong to


class SignalException(Exception):
    """A signal that came while this process had ranks. sigval: the signal."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        Exception.__init__(self, msg)  # whichever class stands beside this one
        self.sigval = sigval


def _terminate_process_handler(signum: int, frame: FrameType | None) -> None:
    """Raise SignalException; in a fork, or when nobody wants it any more, do as before."""
    if signum in _replaced and (os.getpid() != _owner or not _holders):
        signal.signal(signum, _replaced[signum] or signal.SIG_DFL)
        os.kill(os.getpid(), signum)
        return
    sigval = signal.Signals(signum)
    raise _signal_exception()(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)


def _signal_exception() -> type[SignalException]:
    """Give the class to raise: one that is torch's, too, where that is loaded.

    torch's agent may be who waits for our ranks, and it looks for its own.
    """
    torchs = sys.modules.get("torch.distributed.elastic.multiprocessing.api")
    theirs = getattr(torchs, "SignalException", None)
    return type("SignalException", (SignalException, theirs), {}) if theirs else SignalException


def _let_signals_raise(holder: PContext) -> None:
    global _owner
    _owner = os.getpid()
    _holders.add(holder)
    for name in os.environ.get("TORCHELASTIC_SIGNALS_TO_HANDLE", _SIGNALS).split(","):
        try:
            number = getattr(signal, name.strip())
            before = signal.signal(number, _terminate_process_handler)
        except (AttributeError, ValueError, TypeError, OSError):
            logger.warning("Failed to register signal handler for %s", name, exc_info=True)
            continue
        if before is not _terminate_process_handler:
            _replaced[int(number)] = before
        logger.info("Registered signal handler for %s", name)


def _let_signals_be(holder: PContext) -> None:
    """Give the signals back if this was the last of those that wanted them.

    In another thread than the main one that cannot be done: then it is done when one comes.
    """
    _holders.discard(holder)
    if _holders or threading.current_thread() is not threading.main_thread():
        return
    for number, before in _replaced.items():
        if signal.getsignal(number) is _terminate_process_handler:
            signal.signal(number, before or signal.SIG_DFL)
    _replaced.clear()


# -- ranks


class PContext(Common):
    """Ranks, with the signals of this process as exceptions while they run; see `Common`.

    Parameters and attributes are those of `Common`. A subclass of your own says by `_start`,
    `_poll`, `pids` and `_close` what its ranks are; its `wait` then asks `_poll` each `period`, and
    only `close` gives the signals back.
    """

    def start(self) -> None:
        """Start the ranks, and return when all have reached their program.

        In the main thread, the signals that `TORCHELASTIC_SIGNALS_TO_HANDLE` names, by default
        SIGTERM, SIGINT, SIGHUP and SIGQUIT, raise SignalException from now on. They are given back
        by the `wait` that returns a result, or by `close`, of the last ranks that had them, called
        in the main thread: not when the ranks end by themselves. In another thread, a warning is
        logged instead.

        Raises ValueError if it was called before; FileNotFoundError or PermissionError if there is
        no such program; StartFailed, with nothing left running, if a rank could not be started.
        """
        if threading.current_thread() is threading.main_thread():
            _let_signals_raise(self)
        else:
            logger.warning(
                "started in another thread than the main one: signals do not raise SignalException"
            )
        self._start()
        for tail_log in self._tail_logs:
            tail_log.start()

    def _finish(self) -> None:
        super()._finish()
        _let_signals_be(self)


class MultiprocessContext(Ranks, PContext):
    """Ranks that run a function.

    start_method: "spawn" (a fresh interpreter for each), "forkserver" (forks of a small fresh one)
    or "fork" (forks of this process). numa_options: torch's NumaOptions, or None; each rank runs on
    the CPUs near its GPU then, see `procession.Placement`. The others are those of `PContext`.
    """

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any],
        args: Mapping[int, Any],
        envs: Mapping[int, Mapping[str, Any]],
        start_method: str,
        logs_specs: LogsSpecs,
        log_line_prefixes: Mapping[int, str] | None = None,
        numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        from multiprocessing import get_context  # which programs do not need

        self._placement = placement_of(numa_options, len(args))
        get_context(start_method)  # raises ValueError if there is no such method
        self.start_method = start_method
        super().__init__(
            name,
            entrypoint,
            args,
            envs,
            logs_specs,
            log_line_prefixes,
            duplicate_stdout_filters,
            duplicate_stderr_filters,
        )

    def _begin(self, envs: list[dict[str, str | None]], output: Output) -> Group:
        # Imports `multiprocessing`, which programs do not need.
        from procession.processes import begin_processes, processes_for

        function = cast("Callable[..., Any]", self.entrypoint)
        return begin_processes(
            entry.call,
            function,
            [self.args[rank] for rank in range(self.nprocs)],
            processes_for(function, self.nprocs, self.start_method),
            env=dict(enumerate(envs)),
            name=self.name,
            start_method=self.start_method,
            stop=STOP,
            placement=self._placement,
            output=output,
        )

    def _begun(self, group: Group) -> None:
        pass

    def _what(self) -> str:
        name = getattr(self.entrypoint, "__qualname__", repr(self.entrypoint))
        return f"fn: {name} (start_method: {self.start_method})"


class SubprocessContext(Ranks, PContext):
    """Ranks that run a program; parameters are those of `PContext`, and `numa_options`, as
    those of `MultiprocessContext`.

    subprocess_handlers: by local rank; the `proc` of each looks like a `subprocess.Popen`.
    """

    def __init__(
        self,
        name: str,
        entrypoint: str,
        args: Mapping[int, Any],
        envs: Mapping[int, Mapping[str, Any]],
        logs_specs: LogsSpecs,
        log_line_prefixes: Mapping[int, str] | None = None,
        numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        self._placement = placement_of(numa_options, len(args))
        self.subprocess_handlers: dict[int, SubprocessHandler] = {}
        super().__init__(
            name,
            entrypoint,
            args,
            envs,
            logs_specs,
            log_line_prefixes,
            duplicate_stdout_filters,
            duplicate_stderr_filters,
        )

    def _begin(self, envs: list[dict[str, str | None]], output: Output) -> Group:
        words = [self.args[rank] for rank in range(self.nprocs)]
        return begin(
            command_spec(self.name, str(self.entrypoint), words, envs, self._placement), output
        )

    def _begun(self, group: Group) -> None:
        self.subprocess_handlers = {
            rank: SubprocessHandler.of_rank(group, rank, (str(self.entrypoint), *map(str, words)))
            for rank, words in sorted(self.args.items())
        }

    def _what(self) -> str:
        return f"binary: {self.entrypoint}"
