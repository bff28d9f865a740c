"""Ranks of one `Group`, in the terms of the replaced interface; `api` adds its signals.

A thin face: the group starts the ranks, watches, ends and reports them, and shows their output.
Here is only what the replaced interface has beyond that: results in its own terms.
"""

from __future__ import annotations

import abc
import logging
import signal
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from procession.elastic.common import Common
from procession.elastic.ended import RunProcsResult, exit_code, failure_of
from procession.elastic.plan import environment, output_to, tees_beside
from procession.errors import GroupFailed, ProcessionError, RankEnd
from procession.group import Group
from procession.lifecycle import Phase
from procession.output.plan import Output

logger = logging.getLogger("procession.elastic.api")


class Ranks(Common):
    """Ranks that share fate: if one fails, the others are ended, whether or not anybody waits.

    Parameters and attributes are those of `Common`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._output = output_to(self.name, self.nprocs, self._dest, self._prefixes)
        self._group: Group | None = None
        self._result: RunProcsResult | None = None

    def _to_tail(self, paths: Mapping[int, str], tees: Mapping[int, str]) -> dict[int, str]:
        return tees_beside(paths, tees)  # the others, the group itself shows

    @abc.abstractmethod
    def _begin(self, envs: list[dict[str, str | None]], output: Output) -> Group:
        """Make the group, with these environments by rank; see `launch.begin`."""

    @abc.abstractmethod
    def _begun(self, group: Group) -> None:
        """Take note of a group that is being started."""

    def _start(self) -> None:
        if self._group is not None or self._result is not None:
            raise ValueError("these ranks are already initialized: start() was called before")
        if not self.nprocs:
            self._result = RunProcsResult()
            return
        ranks = range(self.nprocs)
        envs = [environment(self.envs.get(rank, {}), self._dest, rank) for rank in ranks]
        self._group = self._begin(envs, self._output)
        self._begun(self._group)
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
            except TimeoutError:
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
        if group is None or group.state.final:
            return
        for rank, pid in self.pids().items():
            if group.exit_of(rank) is None:
                logger.warning("closing process %s by %s", pid, signal.Signals(death_sig).name)
        group.stop(death_sig, max(0.0, timeout))
        for rank, pid in self.pids().items():
            if group.exit_of(rank) is None:
                logger.error("process %s (rank %s) survived SIGKILL; it is left", pid, rank)


_RAN = {"ready", "reported", "exited", "spawn_failed", "start_deadline", "cancelled"}


def _wait_until_all_ran(group: Group, nproc: int) -> None:
    """Wait until no rank is on its way to its program, even if one has failed already."""
    ran: set[int | None] = set()
    for event in group:
        if event.kind in _RAN:
            ran.add(event.rank)
        if len(ran) == nproc:
            return
