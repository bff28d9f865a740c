"""The two kinds of `PContext`: ranks of one `Group` that run a function, or a program.

The group starts the ranks, watches, ends and reports them, and shows their output. Here is only
what the replaced interface has beyond that: results in its own terms.
"""

from __future__ import annotations

import abc
import logging
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

from procession.elastic import entry
from procession.elastic.context import PContext
from procession.elastic.logs import LogsSpecs
from procession.elastic.output import output_to, tees_beside
from procession.elastic.plan import STOP, command_spec, environment, placement_of
from procession.elastic.result import RunProcsResult, exit_code, failure_of
from procession.elastic.subprocess_handler import SubprocessHandler
from procession.group.group import Group
from procession.group.making import begin
from procession.group.result import StillRuns
from procession.rules.tables import Phase
from procession.values.errors import GroupFailed, ProcessionError, RankEnd
from procession.values.policy import Stop

logger = logging.getLogger("procession.elastic.api")


class GroupContext(PContext):
    """Ranks of one group: if one fails, the others are ended, also while nothing calls `wait`.

    numa_options: torch's NumaOptions, or None; each rank runs on the CPUs near its GPU then, see
    `procession.Placement`. The others, and the attributes, are those of `PContext`.

    stop: how the others are ended after a failure; may be changed before `start`.
    """

    stop: Stop = STOP

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any] | str,
        args: Mapping[int, Any],
        envs: Mapping[int, Mapping[str, Any]],
        logs_specs: LogsSpecs,
        log_line_prefixes: Mapping[int, str] | None = None,
        numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        self._placement = placement_of(numa_options, len(args))
        filters = duplicate_stdout_filters, duplicate_stderr_filters
        super().__init__(name, entrypoint, args, envs, logs_specs, log_line_prefixes, *filters)
        self._output = output_to(name, self.nprocs, self._dest, log_line_prefixes)
        self._group: Group | None = None
        self._result: RunProcsResult | None = None

    def _to_tail(self, paths: Mapping[int, str], tees: Mapping[int, str]) -> dict[int, str]:
        return tees_beside(paths, tees)  # the others, the group itself shows

    @abc.abstractmethod
    def _begin(self, envs: list[dict[str, str | None]]) -> Group:
        """Make the group, with these environments by rank, and return while it starts."""

    def _start(self) -> None:
        if self._group is not None or self._result is not None:
            raise ValueError("these ranks are already initialized: start() was called before")
        if not self.nprocs:
            self._result = RunProcsResult()
            return
        ranks = range(self.nprocs)
        envs = [environment(self.envs.get(rank, {}), self._dest, rank) for rank in ranks]
        self._group = self._begin(envs)
        _wait_until_all_ran(self._group, self.nprocs)
        self._group.expire()
        self._group.wait_started()

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """Wait until all ranks have ended well, or one has failed and the others are ended.

        timeout: seconds; 0 is one look, less waits for ever. period: has no meaning here: it
        returns as soon as it is known.

        Returns None if the ranks still run. SignalException comes out of here, too: then `close`
        with its `sigval`. Raises ProcessionError if a rank's value cannot be unpickled.
        """
        if self._result is None:
            if self._group is None:
                raise RuntimeError("there is nothing to wait for: start() has not been called")
            try:
                ended = self._group.wait(
                    None if timeout < 0 else min(timeout, threading.TIMEOUT_MAX)
                )
            except StillRuns:
                return None
            except GroupFailed as e:
                self._result = self._failed(e.failures)
            except ProcessionError:
                self._finish()
                raise
            else:
                if ended.state is Phase.STOPPED:
                    self._result = self._failed([e for e in ended.ranks if exit_code(e) != 0])
                else:
                    self._result = self._ended(return_values=dict(enumerate(ended.values)))
        self._finish()
        return self._result

    def _poll(self) -> RunProcsResult | None:
        return self.wait(0)

    def _ended(self, **what: Any) -> RunProcsResult:
        return RunProcsResult(stdouts=self.stdouts, stderrs=self.stderrs, **what)

    def _failed(self, ends: Iterable[RankEnd]) -> RunProcsResult:
        failures = {
            end.rank: failure_of(end, self.nprocs, self.error_files.get(end.rank) or "")
            for end in ends
        }
        for first in [*failures.values()][:1]:
            logger.error(
                "failed (exitcode: %s) local_rank: %s (pid: %s) of %s",
                first.exitcode,
                first.local_rank,
                first.pid,
                self._what(),
            )
        return self._ended(failures=failures)

    @abc.abstractmethod
    def _what(self) -> str:
        """Name what was run, for the log."""

    def pids(self) -> dict[int, int]:
        """Give the processes by local rank; they stay the same when they have ended."""
        return dict(sorted(self._group.pids().items())) if self._group is not None else {}

    def _close(self, death_sig: signal.Signals, timeout: int = 30) -> None:
        """End the ranks with all that they started.

        One deadline holds for all. What survives SIGKILL for more than ten seconds (in
        uninterruptible sleep) is logged and left.
        """
        group = self._group
        if group is None:
            return
        if group.state.final:
            group.wait_for_end()
            return
        for rank, pid in self.pids().items():
            if group.exit_of(rank) is None:
                logger.warning("closing process %s by %s", pid, signal.Signals(death_sig).name)
        group.stop(death_sig, max(0.0, timeout))
        for rank, pid in self.pids().items():
            if group.exit_of(rank) is None:
                logger.error("process %s (rank %s) survived SIGKILL; it is left", pid, rank)


class MultiprocessContext(GroupContext):
    """Ranks that run a function. None exits before all have returned, as with torch's.

    start_method: "spawn" (a fresh interpreter for each), "forkserver" (forks of a small fresh one)
    or "fork" (forks of this process). The others are those of `GroupContext`.
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

        get_context(start_method)  # raises ValueError if there is no such method
        self.start_method = start_method
        more = numa_options, duplicate_stdout_filters, duplicate_stderr_filters
        super().__init__(name, entrypoint, args, envs, logs_specs, log_line_prefixes, *more)

    def _begin(self, envs: list[dict[str, str | None]]) -> Group:
        # Imports `multiprocessing`, which programs do not need.
        from procession.api.processes import begin_processes, processes_for

        function = cast("Callable[..., Any]", self.entrypoint)
        processes = processes_for(function, self.nprocs, self.start_method)
        return begin_processes(
            entry.call,
            function,
            [tuple(self.args[rank]) for rank in range(self.nprocs)],
            processes,
            env=dict(enumerate(envs)),
            name=self.name,
            start_method=self.start_method,
            stop=self.stop,
            placement=self._placement,
            output=self._output,
        )

    def _what(self) -> str:
        name = getattr(self.entrypoint, "__qualname__", repr(self.entrypoint))
        return f"fn: {name} (start_method: {self.start_method})"


class SubprocessContext(GroupContext):
    """Ranks that run a program; parameters are those of `GroupContext`.

    subprocess_handlers: by local rank; the `proc` of each looks like a `subprocess.Popen`.
    """

    subprocess_handlers: Mapping[int, SubprocessHandler] = MappingProxyType({})

    def _begin(self, envs: list[dict[str, str | None]]) -> Group:
        program = str(self.entrypoint)
        args = [self.args[rank] for rank in range(self.nprocs)]
        group = begin(
            command_spec(self.name, program, args, envs, self._placement, self.stop), self._output
        )
        self.subprocess_handlers = SubprocessHandler.of_ranks(
            group, [(program, *map(str, words)) for words in args]
        )
        return group

    def _what(self) -> str:
        return f"binary: {self.entrypoint}"


_RAN = {"ready", "reported", "exited", "spawn_failed", "start_deadline", "cancelled"}


def _wait_until_all_ran(group: Group, nproc: int) -> None:
    """Wait until no rank is on its way to its program, even if one has failed already."""
    ran: set[int | None] = set()
    for event in group:
        if event.kind in _RAN:
            ran.add(event.rank)
        if len(ran) == nproc:
            return
