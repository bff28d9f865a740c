"""What a group needs to start its ranks: program, environment, streams and files, by rank."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from procession.board import Board
from procession.forkserver import pool
from procession.forkserver.boot import fresh_interpreter
from procession.forkserver.client import ForkServer, Jobs
from procession.output.plan import Output, output_of
from procession.output.rundir import masked, masked_words, run_of
from procession.output.wiring import Wiring
from procession.payload import Payload
from procession.placing import Placed, Places
from procession.preloading import learns, plan_of, preload_of
from procession.rankenv import (
    Place,
    common_environment,
    given_run_id,
    own_environment,
    rank_environment,
)
from procession.results import ResultReader
from procession.spec import Command, Function, Spec, words_of
from procession.system.descriptors import fill_standard
from procession.system.identity import own_mark
from procession.system.ports import free_port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.learning import Learning
    from procession.output.plan import Files
    from procession.preload.plan import Plan

    Variables = Callable[[int, int], Mapping[str, str]]


class Spawner:
    """Sends the ranks of one group to its forkserver. Owns the files and descriptors for that."""

    def __init__(self, spec: Spec, output: Output | None = None) -> None:
        self._spec = spec
        self._env = dict(os.environ)
        self.places = Places(spec, self._env)
        self.environments: list[Variables] = []  # what gives ranks more variables
        self._lease: pool.Lease | None = None
        self._jobs = Jobs()  # that are still to be sent
        early = [self._early(rank) for rank in range(spec.nproc)]
        # Whether one interpreter can stand at the beginning of all ranks.
        self._common_start = all(e == early[0] for e in early)
        self._filled = fill_standard()
        if not self._forks_launcher:
            # It boots while what the ranks need is made. If it does not start, `lease` says why.
            pool.prepare(self._server_env())
        self._plan: Plan | None = None
        self._learning: Learning | None = None
        self._account: ResultReader | None = None
        # To be closed in this order.
        self._owned: list[Payload | Files | Wiring | Board | Places] = []
        try:
            self.board = Board(spec.nproc)
            self._owned.append(self.board)
            self.payload = Payload(spec)
            self._owned += [self.payload, self.places]
            self._plan = plan_of(spec, self.payload.named)
            if self._plan is not None and learns(spec, self._plan):
                from procession.learning import Learning

                self._learning = Learning(spec, self._plan)
            output = output or planned_output(spec)
            self.run_dir = output.files
            self._owned.append(self.run_dir)
            self.streams = Wiring(output, spec.stdin)
            self._owned.insert(0, self.streams)
            self.run_id = run_of(self.run_dir.path)
            self.asked = self._asked()
            self.run_dir.write_run(self.asked)
            self.places.prepare()
        except BaseException:
            self._close_all()
            raise

    def _asked(self) -> dict[str, object]:
        spec = self._spec
        return {
            "name": spec.name,
            "run": self.run_id,
            "program": type(spec.program).__name__.lower(),
            "words": masked_words(words_of(spec.program)),
            "programs": [masked_words(words_of(p)) for p in spec.programs] or None,
            "args": None if isinstance(spec.program, Function) else _masked_args(spec),
            "nproc": spec.nproc,
            "node": vars(spec.node),
            "env": [masked(e) for e in spec.env],
            "cwd": spec.cwd,
            "start_method": spec.start_method,
            "stop": repr(spec.stop),
            "restart": repr(spec.restart),
            "hang": repr(spec.hang),
            "logs": repr(spec.logs),
            "placement": repr(spec.placement),
            "launcher": os.getpid(),
            "mark": own_mark(),
        }

    def lease(self) -> ForkServer:
        """Get the forkserver for this group. Raises OSError."""
        if self._forks_launcher:
            return fork_server(self._spec)
        preload = pool.NOTHING
        if self._common_start and self._plan is not None and self._plan.modules:
            known = self._learning.known if self._learning is not None else ()
            preload = preload_of(self._spec, self._plan, known, self._variables())
        self._lease = pool.lease(self._server_env(), preload)
        return self._lease.server

    def _variables(self) -> list[dict[str, str]]:
        return variables_of(self._spec, self._env, self.places.placed)

    @property
    def _forks_launcher(self) -> bool:
        return self._spec.start_method == "fork" and isinstance(self._spec.program, Function)

    def _server_env(self) -> dict[str, str]:
        """Give the variables with which its forkserver is started."""
        if not (self._spec.is_python and self._common_start):
            return self._env
        env = {**self._env, **self._early(0)}
        return {name: value for name, value in env.items() if value is not None}

    def no_fork(self) -> None:
        """Take note that the forkserver's imports keep it from forking ranks."""
        if self._learning is not None:
            self._learning.forget()

    def _early(self, rank: int) -> dict[str, str | None]:
        """Give the variables of a rank that an interpreter reads when it starts."""
        return {n: v for n, v in self._spec.env[rank].items() if pool.is_early(n)}

    def begin(self, server: ForkServer, attempt: int) -> None:
        """Tell the forkserver what is common to the ranks of an attempt. Raises OSError."""
        if self._spec.is_python:
            # What ranks tell is read with it; when they do, no descriptor may be left to import.
            import json  # noqa: F401 # pyright: ignore[reportUnusedImport]
        where = Place(
            address=self._spec.node.address,
            port=self._spec.node.port or free_port(),
            run_id=self.run_id,
            attempt=self._spec.node.attempt + attempt,
            restarts=max(self._spec.node.restarts, self._spec.restart.max),
            cores=self.places.placed.cores,
            launcher=own_mark(),
        )
        spec = self._spec
        own = common_environment(where, spec.nproc, _role(self._env), self._env, spec.node)
        common = {
            "env": {**self._env, **own},
            "cwd": spec.cwd,
            "umask": _umask(),
            "scratch": None if self.run_dir.kept else self.run_dir.path,
            "python": fresh_interpreter(),
            "cgroups": self.places.cgroups(attempt),
        }
        server.send(("begin", common), [], [])

    def spawn(self, server: ForkServer, attempt: int, rank: int) -> ResultReader | None:
        """Ask for one rank, with those that are asked for next; see `all_spawned`.

        What a Python program tells is read from what is returned. Raises OSError.
        """
        jobs = self._jobs
        if jobs.full:
            jobs = self._send_jobs(server)
        streams, opened = self.streams.open(attempt, rank)
        jobs.close += opened
        program = self._spec.program_of(rank)
        roles: dict[str, int]
        roles = dict(zip(("stdin", "stdout", "stderr"), map(jobs.place, streams), strict=True))
        error_file = self.run_dir.error_file(attempt, rank)
        node = self._spec.node
        number = node.first(self._spec.nproc) + rank
        own = own_environment(node.local + rank, number, error_file) | self.board.variable(rank)
        if self._spec.restart.scope == "rank":
            # Of this rank.
            own["TORCHELASTIC_RESTART_COUNT"] = str(self._spec.node.attempt + attempt)
        own |= self.places.placed.variables(rank, self._env)
        for give in self.environments:
            own |= give(attempt, rank)
        env: dict[str, str | None] = {**own, **self._spec.env[rank]}
        args = self._spec.args[rank]
        job: dict[str, Any] = {"rank": rank, "env": env, "fds": roles, "inherit": ()}
        place = self.places.of(attempt, rank)
        if place:
            job["place"] = place
        if isinstance(program, Command):
            job |= {"kind": "exec", "argv": [*program.argv, *map(os.fspath, args)]}
            jobs.add(job)
            return None
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        reader = ResultReader(read_end)
        jobs.close.append(write_end)
        for role, fd in {"result": write_end, **self.payload.fds(rank)}.items():
            roles[role] = jobs.place(fd)
        job["inherit"] = [jobs.place(fd) for fd in self.payload.inherited(rank)]
        fresh = self._spec.start_method == "spawn" or not self._common_start
        told = self.payload.told(program)
        if "args" in told:
            told["args"] = [*told["args"], *map(os.fspath, args)]
        job |= {"kind": "fresh" if fresh else "python", "program": told}
        if self.run_dir.kept:
            job["error_file"] = error_file
        if self._learning is not None and rank == 0:
            job["packages"] = self._learning.packages
            self._account = reader
        jobs.add(job)
        return reader

    def _send_jobs(self, server: ForkServer) -> Jobs:
        jobs, self._jobs = self._jobs, Jobs()
        jobs.send(server)
        return self._jobs

    def all_spawned(self, server: ForkServer, attempt: int) -> None:
        """Send what is still to be sent of the ranks that were asked for.

        A forkserver that is a fork of this process, and is to fork no more, lets go of this
        process's descriptors then, for somebody may wait for their end.
        """
        self._send_jobs(server)
        restart = self._spec.restart
        last = restart.window is None and restart.scope == "group" and attempt >= restart.max
        if self._spec.start_method == "fork" and (last or not restart.max):
            server.send(("release",), [], [])

    def close(self, server: ForkServer | None, *, clean: bool) -> None:
        """Give everything back; the forkserver rests for the next launch if all is clean."""
        if server is not None and clean and self._lease is not None:
            pool.release(self._lease)
        elif server is not None:
            pool.discard(server)
        if self._learning is not None and self._account is not None:
            self._learning.take(self._account.account)
        self._close_all()

    def _close_all(self) -> None:
        self._jobs.drop()
        for each in self._owned:
            each.close()
        for fd in self._filled:
            os.close(fd)
        self._owned.clear()
        self._filled.clear()


def variables_of(spec: Spec, env: Mapping[str, str], placed: Placed) -> list[dict[str, str]]:
    """Give the variables of each rank, as far as they are known before an attempt.

    env: the launcher's. placed: what ranks get of the machine.
    """
    where = Place(spec.node.address, spec.node.port, "", 0, spec.restart.max, placed.cores)
    found: list[dict[str, str]] = []
    for rank, own in enumerate(spec.env):
        given = rank_environment(where, rank, spec.nproc, _role(env), "", env, spec.node)
        both = {**env, **given, **placed.variables(rank, env), **own}
        found.append({name: value for name, value in both.items() if value is not None})
    return found


def planned_output(spec: Spec, place: str = "") -> Output:
    """Plan the output of a group by its `Logs`, and make its directory. Raises OSError.

    place: the directory, where the group is one attempt of a job; see `output_of`.
    """
    called = spec.node.run_id or given_run_id(os.environ) or spec.name
    node = spec.node
    world = node.first(spec.nproc), node.size(spec.nproc), node.local
    return output_of(
        spec.logs, spec.nproc, spec.name, _safe(called), world, node.rank, place, node.attempt
    )


def _role(env: Mapping[str, str]) -> str:
    return env.get("ROLE_NAME", "default")


def fork_server(spec: Spec, mask: set[Any] | None = None) -> ForkServer:
    """Fork this process to be the forkserver of a function; see `ForkServer.fork`."""
    assert isinstance(spec.program, Function)
    server = ForkServer.fork((spec.program.call, list(spec.args), list(spec.kwargs)), mask)
    pool.adopt(server)
    return server


def _masked_args(spec: Spec) -> list[list[str]]:
    return [masked_words([str(a) for a in args]) for args in spec.args]


def _safe(name: str) -> str:
    """Make a name fit for a directory."""
    kept = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
    return kept.strip("._")[:40] or "run"


def _umask() -> int:
    """Read the umask without setting it, which another thread would notice (Linux 4.7)."""
    with open("/proc/self/status", "rb") as f:
        for line in f:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    return 0o022
