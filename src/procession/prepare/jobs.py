"""The jobs of a run's ranks: which agent starts them, and what it is sent for each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property

from procession.agent import pool
from procession.agent.boot import check_proc, fresh_interpreter, is_early
from procession.agent.client import Agent
from procession.agent.protocol import close_all
from procession.output.wiring import Output, Streams
from procession.prepare.payload import Payload
from procession.prepare.placing import Places
from procession.prepare.resources import Resources, role_of, variables_of
from procession.system.files import fill_standard, pairs
from procession.system.identity import own_mark
from procession.system.ports import free_port
from procession.values.base import Record
from procession.values.environment import common_environment, given_run_id, own_environment
from procession.values.program import Command, Function, Module, Script, words_of
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.preload.plan import Plan
    from procession.values.shared import SharedCall
    from procession.warm.launching import Warm

JOBS_AT_ONCE, FDS_AT_ONCE = 32, 64


class SpawnRequest(Record):
    """Ranks to be asked for in one message, with the descriptors that they share.

    jobs: the ranks, see `worker.setup`. places: of descriptors, among those of the message. close:
    descriptors to be closed when the message was sent.
    """

    jobs: list[dict[str, Any]]
    places: dict[int, int]
    close: list[int]

    def place(self, fd: int) -> int:
        """Give the place of a descriptor."""
        return self.places.setdefault(fd, len(self.places))


class RankJobs:
    """Leases the agent of one run, and asks it for ranks. Owns the run's resources.

    resources: what the run needs beside processes. warm: its agent may come from an earlier run,
    and is to be kept for a later one. output, payload: see `Resources`.
    """

    def __init__(
        self,
        spec: Spec,
        output: Output | None = None,
        payload: Payload | None = None,
    ) -> None:
        self._spec = spec
        self._env = {name: value for name, value in os.environ.items() if name}
        self._lease: pool.Lease | None = None
        self._warm: Warm | None = None
        self._request = SpawnRequest([], {}, [])  # that is still to be sent
        self.plan: Plan | None = None
        early = [self._early(rank) for rank in range(spec.nproc)]
        # Whether one interpreter can stand at the beginning of all ranks.
        self._common_start = all(e == early[0] for e in early)
        places = Places(spec, self._env)
        alike = spec.start_method == "forkserver" and self._common_start and not spec.pass_fds
        self.warm = spec.warm is not None and spec.is_python and alike
        self._owned: list[Warm | Resources] = []
        self._filled = fill_standard()
        try:
            self._boot(spec)
            self.resources = Resources(spec, places, output, payload)
            self._owned.append(self.resources)
            if spec.is_python:
                from procession.preload.choose import plan_of

                payload = self.resources.payload
                self.plan = plan_of(spec, payload.modules, payload.functions)
        except BaseException:
            self._close_all()
            raise
        if spec.shared is not None and not self._common_start:
            places.notes.append(
                "each rank loads for itself: they differ in variables that a starting "
                "interpreter reads [P403]"
            )

    def _boot(self, spec: Spec) -> None:
        """Have an agent boot while what the ranks need is made.

        If it does not start, `lease` says why.
        """
        if self.warm:
            from procession.warm.launching import Warm

            self._warm = Warm(spec.warm or 0.0, self._server_env())
            self._owned.append(self._warm)
        elif not self._forks_launcher:
            self._key = pool.prepare(self._server_env(), spec.pass_fds)

    # -- its agent

    def lease(self) -> Agent:
        """Get the agent for this group. Raises OSError."""
        if self._forks_launcher:
            return fork_server(self._spec)
        preload = pool.NOTHING
        if self._spec.is_python:
            from procession.preload.choose import preload_of

            path = self.resources.payload.description(self._spec.program).get("sys_path")
            plan = self.plan if self._common_start else None
            preload = preload_of(self._spec, plan, self._by_rank, path, watched=self.warm)
        if self._warm is not None:
            self._lease = self._warm.lease(preload)
            self.resources.places.notes += filter(None, (self._warm.note,))
        else:
            self._lease = pool.lease(self._server_env(), self._key, preload)
        return self._lease.agent

    @cached_property
    def _by_rank(self) -> list[dict[str, str]]:
        """The variables of each rank, as far as they are known before an attempt."""
        return variables_of(self._spec, self._env, self.resources.places.placed)

    @property
    def _forks_launcher(self) -> bool:
        return self._spec.start_method == "fork" and isinstance(self._spec.program, Function)

    def _server_env(self) -> dict[str, str]:
        """Give the variables with which its agent is started."""
        if not (self._spec.is_python and self._common_start):
            return self._env
        env = {**self._env, **self._early(0)}
        return {name: value for name, value in env.items() if value is not None}

    def _early(self, rank: int) -> dict[str, str | None]:
        """Give the variables of a rank that an interpreter reads when it starts."""
        return {n: v for n, v in self._spec.env[rank].items() if is_early(n)}

    # -- asking for ranks

    def begin_attempt(self, server: Agent, attempt: int) -> None:
        """Tell the agent what is common to the ranks of an attempt. Raises OSError."""
        spec = self._spec
        if spec.is_python:
            # Reports are read with it, and when they come no descriptor may be left for an import.
            import json  # noqa: F401 # pyright: ignore[reportUnusedImport]
        resources = self.resources
        node = spec.node.__replace__(
            port=spec.node.port or free_port(),
            run_id=spec.node.run_id or given_run_id(self._env) or resources.run_id,
            attempt=spec.node.attempt + attempt,
            restarts=max(spec.node.restarts, spec.restart.max),
        )
        cores = resources.places.placed.cores
        own = common_environment(node, spec.nproc, role_of(self._env), self._env, cores)
        own |= {"PROCESSION_RUN": resources.run_id, "PROCESSION_LAUNCHER": own_mark()}
        common = {
            "env": {**self._env, **own},
            "cwd": spec.cwd,
            "umask": _umask(),
            "scratch": None if resources.run_dir.kept else resources.run_dir.path,
            "python": fresh_interpreter(),
            "cgroups": resources.places.cgroups(attempt),
        }
        if spec.shared is not None:
            common["shared"] = self._shared(spec.shared)
        server.send(("begin", common), [], [])

    def _shared(self, shared: Callable[[], Any] | SharedCall) -> dict[str, Any]:
        """Describe the shared set-up for the agent; see `worker.shared`."""
        from procession.preload.choose import common_variables
        from procession.values.shared import SharedCall, name_of

        called = None
        if isinstance(shared, SharedCall):
            called = (shared.module, shared.function, shared.args, dict(shared.kwargs))
        return {
            "name": name_of(shared),
            "env": common_variables(self._by_rank),
            "call": called,
        }

    def spawn(
        self,
        server: Agent,
        attempt: int,
        rank: int,
        streams: Streams,
        more: Mapping[str, str],
    ) -> None:
        """Ask for one rank, with those that are asked for next; see `send`.

        more: variables for it. Raises OSError.
        """
        request, spec = self._request, self._spec
        if len(request.jobs) >= JOBS_AT_ONCE or len(request.places) >= FDS_AT_ONCE:
            self.send(server)
            request = self._request
        request.close += streams.opened
        program = spec.program_of(rank)
        roles: dict[str, int]
        roles = dict(
            zip(("stdin", "stdout", "stderr"), map(request.place, streams.fds), strict=True)
        )
        env = self._env_of(attempt, rank, more)
        job: dict[str, Any] = {
            "rank": rank,
            "attempt": attempt,
            "env": env,
            "fds": roles,
            "inherit": (),
        }
        place = self.resources.places.of(attempt, rank)
        if place:
            job["place"] = place
        if isinstance(program, Command):
            argv = spec.filled([*program.argv, *map(os.fspath, spec.args[rank])], rank)
            request.jobs.append(job | {"kind": "exec", "argv": argv})
            return
        payload = self.resources.payload
        for role, fd in payload.fds(rank).items():
            roles[role] = request.place(fd)
        job["inherit"] = [request.place(fd) for fd in payload.inherited(rank)]
        fresh = spec.start_method == "spawn" or not self._common_start
        described = payload.description(program)
        if "args" in described:
            args = [*described["args"], *map(os.fspath, spec.args[rank])]
            described["args"] = spec.filled(args, rank)
        job |= {"kind": "fresh" if fresh else "python", "program": described}
        job["title"] = self._title(program, spec.node.first(spec.nproc) + rank)
        if self.resources.run_dir.kept:
            job["error_file"] = self.resources.run_dir.error_file(attempt, rank)
        request.jobs.append(job)

    def _env_of(self, attempt: int, rank: int, more: Mapping[str, str]) -> dict[str, str | None]:
        """Give the variables that one rank has besides those of its attempt."""
        spec, resources = self._spec, self.resources
        error_file = resources.run_dir.error_file(attempt, rank)
        number = spec.node.first(spec.nproc) + rank
        own = own_environment(spec.node.local + rank, number, error_file)
        own |= resources.board.variable(rank)
        if spec.restart.scope == "rank":  # the count is of this rank
            before = spec.node.attempt - spec.node.regrouped
            own["TORCHELASTIC_RESTART_COUNT"] = str(before + attempt)
        own |= resources.places.placed.variables(rank, self._env)
        return {**own, **more, **spec.env[rank]}

    def _title(self, program: Script | Module | Function, number: int) -> str:
        """Say how `ps` shall show a rank. number: its number in the whole job."""
        name = self._spec.name
        if not isinstance(program, Function):
            name = os.path.basename(words_of(program)[0].rstrip("/")) or name
        shown = "".join(c if c.isprintable() else "?" for c in name)
        return f"{shown} [rank {number}/{self._spec.node.size(self._spec.nproc)}]"

    def send(self, server: Agent) -> None:
        """Send what is still to be sent of the ranks that were asked for."""
        request, self._request = self._request, SpawnRequest([], {}, [])
        if request.jobs:
            server.send(("spawn", request.jobs), list(request.places), request.close)
        else:
            close_all(request.close)

    def all_sent(self, server: Agent, attempt: int) -> None:
        """Take note that all ranks of an attempt were asked for.

        An agent that is a fork of this process, and is to fork no more, lets go of this
        process's descriptors then: other processes may wait for their end.
        """
        restart = self._spec.restart
        last = restart.window is None and restart.scope == "group" and attempt >= restart.max
        if self._spec.start_method == "fork" and (last or not restart.max) and not server.lasting:
            server.send(("release",), [], [])

    # -- at the end

    def close(self, server: Agent | None, *, clean: bool) -> None:
        """Give everything back; the agent is kept for the next launch if all is clean."""
        if clean:  # while the agent knows of it, who would do it if this process were killed
            self.resources.run_dir.remove_scratch()
        if server is not None and clean and self._lease is not None:
            self._release(self._lease)
        elif server is not None and not (server.lasting and clean and not server.waiting):
            server.close()
        elif server is not None:
            server.send(("idle", None), [], [])
        self._close_all()

    def _release(self, lease: pool.Lease) -> None:
        if self._warm is None:
            pool.release(lease)
            return
        why = self._warm.release(lease)
        if why:
            import logging

            said = f"procession: warm: nothing is kept: {why} [P406]"
            logging.getLogger("procession").warning("%s", said)

    def _close_all(self) -> None:
        close_all(self._request.close)
        self._request.close.clear()
        for each in self._owned:
            each.close()
        self._owned.clear()
        close_all(self._filled)
        self._filled.clear()


def fork_server(spec: Spec, mask: set[Any] | None = None) -> Agent:
    """Fork this process to be the agent of a function; see `Agent.fork`."""
    assert isinstance(spec.program, Function)
    check_proc()
    return Agent.fork((spec.program.call, list(spec.args), list(spec.kwargs)), mask)


def _umask() -> int:
    """Read the umask without setting it, which another thread would notice."""
    return int(pairs("/proc/thread-self/status", ":").get("Umask", "022"), 8)
