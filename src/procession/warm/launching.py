"""The launcher's side: takes a kept agent for a run, and has the run's agent kept.

Theory of operation. A run that wants to be warm asks the keeper for its list while it is prepared.
Only agents that were started as this run would start one are considered (they have the same
*key*). When it is known what the run imports, the one that lacks the fewest imports is taken. It
says whether all that it has read is unchanged, and takes over the limits and priorities of this
process (`agent.kept`). If none fits, a new one is started, and the reason is a line among the
notes of the run. The same happens if the keeper does not answer, or belongs to somebody else: no
fault of the keeper makes a run fail.

An agent that may be kept is started with only those variables that an interpreter reads when it
starts. The others come with the run, and are removed after it.

The connection stays open while the run goes on, so that the keeper stays, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import sys
import time
from collections.abc import Mapping
from typing import Any

from procession.agent import boot, pool
from procession.agent.client import Agent
from procession.agent.pool import NOTHING, Lease, Preload
from procession.system import facts, processes
from procession.system.identity import mark_of, own_mark
from procession.values.base import is_count
from procession.values.environment import among
from procession.values.placement import read_size
from procession.values.version import __version__
from procession.warm.client import SECONDS, Connection, NoKeeper, Unusable, start_keeper

NOTHING_KEPT = "nothing is kept yet"
OTHER_IMPORTS, NO_IMPORTS = 500, 1000  # how far what is kept is from what is wanted
# Variables that are read when an interpreter starts, beside those of `pool.EARLY_VARIABLES`: by
# `site`, and by a `.pth` file that nearly every environment has.
STARTING = ("HOME", "SETUPTOOLS_USE_DISTUTILS")
# How many agents may be kept, and how much memory they may have together.
MOST, DEFAULT_MOST = "PROCESSION_WARM_MOST", 8
MOST_MEMORY, DEFAULT_MEMORY = "PROCESSION_WARM_MEMORY", 4 << 30


class Warm:
    """The dealings of one run with the keeper. Made in the thread that launches, like `pool.key`.

    seconds: how long its agent is kept. env: the variables with which one is started. why: why
    this run starts cold, "" if it does not.
    """

    def __init__(self, seconds: float, env: Mapping[str, str]) -> None:
        boot.end_early()  # it has the variables of this run
        self.why = NOTHING_KEPT
        self.key = pool.key(env)
        self._seconds = seconds
        self._start_env = {n: v for n, v in env.items() if pool.is_early(n) or n in STARTING}
        self._facts = facts.read_facts()
        self._text = key_text(self.key, self._start_env)
        self._connection: Connection | None = None
        self._usable = True  # the keeper
        self._booted: Agent | None = None
        self._uses = 0
        self._kept = self._ask()
        if not self._kept:
            try:
                self._booted = Agent.start(self._start_env, room=True)
            except OSError:
                pass  # `lease` says so

    def _ask(self) -> list[dict[str, Any]]:
        """Give the kept agents that were started as this run would start one."""
        try:
            self._connection = Connection()
            kept = self._connection.list()
        except NoKeeper:
            return []  # one is started when there is something to be kept
        except Unusable as e:
            self._give_up(f"the keeper cannot be used: {e}")
            return []
        same = [each for each in kept if each["key"] == self._text]
        if kept and not same:
            self.why = "what is kept was started by another Python, or with other variables"
        return same

    def _give_up(self, why: str) -> None:
        """Do without the keeper from now on."""
        self.why, self._usable = why, False
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    # -- before the run

    def lease(self, preload: Preload = NOTHING) -> Lease:
        """Get an agent with these imports: a kept one, or a new one. Raises OSError."""
        server = self._take(preload)
        if server is None:
            server, self._booted = self._booted, None
            server = server or Agent.start(self._start_env, room=True)
            self._uses = 0
        return pool.work(server, self.key, preload)

    def _take(self, preload: Preload) -> Agent | None:
        """Take the kept agent that lacks the fewest imports, if one fits."""
        fitting: list[dict[str, Any]] = []
        nearest = NO_IMPORTS + 1
        for kept in self._kept:
            distance, obstacle = obstacle_to(kept, preload, self._facts)
            if not distance:
                fitting.append(kept)
            elif distance < nearest:
                nearest, self.why = distance, obstacle
        fitting.sort(key=lambda kept: (len(kept["modules"]), -kept["age"]))
        while fitting and self._connection is not None:
            chosen = fitting.pop()
            self._kept.remove(chosen)
            try:
                taken = self._connection.take(chosen["pid"])
            except Unusable as e:
                self._give_up(f"the keeper cannot be used: {e}")
                return None
            if taken is None:
                self.why = "another run has just taken what was kept"
                continue
            server = self._woken(*taken, preload)
            if server is not None:
                self.why, self._uses = "", taken[0]["uses"]
                return server
        return None

    def _woken(self, kept: Mapping[str, Any], fd: int, preload: Preload) -> Agent | None:
        """Have a kept agent work for this process; None, and `why`, if it does not fit."""
        try:
            server = Agent.taken(kept["pid"], fd)
        except OSError as e:
            self.why = f"the kept agent cannot be watched: {e.strerror or e}"
            return None
        self.why = "the kept agent is another process"
        if server.began == kept["began"]:
            self.why = self._agreement(server, preload)
        if self.why:
            server.close(pool.IDLE_GOING_TIME)
            return None
        return server

    def _agreement(self, server: Agent, preload: Preload) -> str:
        if not processes.directory_of(server.pid):
            return "this process may not look into the kept agent"
        server.wake()  # it may have been stopped (SIGSTOP) while it was kept
        words = {
            "mark": own_mark(),
            "pid": os.getpid(),
            "facts": self._facts,
            "env": dict(preload.env),
        }
        fault, theirs = _asked(server, "take", "taken", words, os.getpid())
        differs = facts.obstacles(theirs, self._facts, exact=True) if not fault else []
        return fault or (f"{differs[0]} could not be given to what is kept" if differs else "")

    @property
    def note(self) -> str:
        """One line about a run that starts cold, "" for others."""
        return f"warm: this run starts cold: {self.why} [P406]" if self.why else ""

    # -- after the run

    def release(self, lease: Lease) -> str:
        """Give the agent of a run that is over to the keeper; gives why it is not kept, or "".

        It is ended then.
        """
        why = lease.preload.own or self._release(lease.agent, lease.preload)
        if why:
            pool.discard(lease.agent)
        else:
            pool.forget(lease.agent)
        return why

    def _release(self, server: Agent, preload: Preload) -> str:
        if server.lost or server.waiting:
            return "the agent does not answer"
        if not self._usable:
            return self.why
        try:
            connection = self._connection = self._connection or self._connected()
            words = {"mark": mark_of(connection.pid)}
            fault, theirs = _asked(server, "keep", "kept", words, connection.pid)
            if fault:
                return fault
            try:
                connection.keep(self._described(server, preload, theirs), server.fileno())
            except Unusable:
                server.shut()  # its socket may be on its way to a keeper that does not read
                raise
        except NoKeeper:
            return "the keeper is gone"
        except Unusable as e:
            return f"the keeper cannot be used: {e}"
        return ""

    def _connected(self) -> Connection:
        """Connect to a keeper that another run has started since, or to a new one.

        Raises NoKeeper, and Unusable.
        """
        try:
            return Connection()
        except NoKeeper:
            return start_keeper(self._start_env | _places())

    def _described(
        self, server: Agent, preload: Preload, theirs: Mapping[str, str]
    ) -> dict[str, Any]:
        most, most_memory = read_limits(os.environ)
        return {
            "pid": server.pid,
            "began": server.began,
            "key": self._text,
            "modules": preload.modules,
            "reads": preload.reads,
            "seen": digest(preload.seen),
            "path": preload.path,
            "cwd": preload.cwd,
            "facts": theirs,
            "uses": self._uses + 1,
            "seconds": self._seconds,
            "most": most,
            "most_memory": most_memory,
        }

    def close(self) -> None:
        """Close the connection, and end an agent that was not needed."""
        if self._booted is not None:
            self._booted.close(pool.IDLE_GOING_TIME)
        if self._connection is not None:
            self._connection.close()
        self._booted = self._connection = None


def obstacle_to(
    kept: Mapping[str, Any], preload: Preload, own: Mapping[str, str]
) -> tuple[int, str]:
    """Say how far a kept agent is from what is wanted, and why it does not fit.

    0 and "" if it fits, as far as is known without asking it. preload: what is to be imported.
    own: the facts of this process.
    """
    modules = tuple(kept["modules"])
    if modules:
        if modules != preload.modules[: len(modules)]:
            return NO_IMPORTS, "what is kept has made other imports"
        if kept["cwd"] != preload.cwd:
            return OTHER_IMPORTS, f"what is kept was imported in {kept['cwd']}"
        if kept["path"] != (None if preload.path is None else list(preload.path)):
            return OTHER_IMPORTS, "what is kept was imported with another sys.path"
        seen = {n: v for n, v in preload.env.items() if among(kept["reads"], n)}
        if kept["seen"] != digest(seen):
            return OTHER_IMPORTS, "a variable changed that the imports have read"
    differ = facts.obstacles(kept["facts"], own)
    return len(differ), f"what is kept differs in {differ[0]}" if differ else ""


def key_text(key: tuple[Any, ...], env: Mapping[str, str]) -> str:
    """Give a text that is equal for two processes of this user that start an equal interpreter.

    key: of the pool. env: the variables with which it is started. What is among the facts (limits,
    affinity, rights, ...) is left out: it is compared separately.
    """
    executable, flags, _, blocked, ignored, *_ = key
    words = [
        executable,
        *flags,
        sys.version,
        __version__,
        boot.ENTRY,
        sorted(map(int, blocked)),
        sorted(map(int, ignored)),
        sorted(env.items()),
    ]
    return digest_of(words)


def digest(variables: Mapping[str, str]) -> str:
    """Give a digest of variables, since their values must not be stored with the keeper."""
    return digest_of(sorted(variables.items()))


def digest_of(value: object) -> str:
    """Give a digest of what JSON can write."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def read_limits(env: Mapping[str, str]) -> tuple[int, int]:
    """Give how many may be kept, and how many bytes; a value that cannot be read is ignored."""
    most = env.get(MOST, "")
    try:
        memory = read_size(env.get(MOST_MEMORY, ""))
    except ValueError:
        memory = DEFAULT_MEMORY
    return int(most) if is_count(most, 19) else DEFAULT_MOST, memory


def _places() -> dict[str, str]:
    """Give the variables by which the keeper finds the directory of its socket."""
    names = ("XDG_RUNTIME_DIR", "TMPDIR")
    return {name: os.environ[name] for name in names if name in os.environ}


def _asked(
    server: Agent, ask: str, answered: str, words: dict[str, Any], owner: int
) -> tuple[str, dict[str, str]]:
    """Ask an agent to change its owner; gives what is in the way, or "", and the agent's facts.

    owner: the pid of the new one.
    """
    try:
        pidfd = os.pidfd_open(owner)
    except OSError as e:
        return f"the agent cannot get another owner: {e.strerror or e}", {}
    server.send((ask, words), [pidfd], [pidfd])
    until = time.monotonic() + SECONDS
    poll = select.poll()
    while not server.lost:
        left = until - time.monotonic()
        poll.register(server.fileno(), select.POLLIN | select.POLLOUT * server.waiting)
        if left <= 0 or not poll.poll(left * 1000):
            return "the agent does not answer", {}
        server.flush()
        for messages, fds in server.receive():
            for fd in fds:
                os.close(fd)
            for kind, *rest in messages:
                if kind == answered:
                    return rest[0], rest[1]
    return f"the agent failed: {server.crash}" if server.crash else "the agent is gone", {}
