"""The launcher's side: takes a template for a run, and has the run's agent go on as one.

Theory of operation. While a run that wants to be warm is prepared, it looks for templates that were
started as this run would start an agent (they have the same *key*). When it is known what the run
imports, it asks them, those with the most imports first. The first whose imports fit, and of which
nothing has changed, works for this run. If there is none, a new agent is started, and the reason is
a line among the notes of the run; so no fault of a template makes a run fail.

An agent that may be kept is started with only those variables that an interpreter reads when it
starts. The others come with the run, and are removed after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from procession.agent import boot, pool
from procession.agent.client import Agent
from procession.agent.pool import NOTHING, Lease
from procession.agent.wanted import Preload
from procession.system import facts
from procession.system.directories import Refused, open_runtime
from procession.system.identity import own_mark
from procession.system.processes import directory_of
from procession.values.base import is_count
from procession.values.version import __version__
from procession.warm.templates import NAME, Gone, ListedTemplate, Unusable, ask, templates

NOTHING_KEPT = "nothing is kept yet"
# Variables that are read when an interpreter starts, beside those of `boot.EARLY_VARIABLES`: by
# `site`, and by a `.pth` file that nearly every environment has.
STARTING = ("HOME", "SETUPTOOLS_USE_DISTUTILS")
# What differs in the parts of `key_text`.
HOW = (
    "by another Python",
    "with other signals ignored or blocked",
    "with other variables that Python reads when it starts",
)
MOST, DEFAULT_MOST = "PROCESSION_WARM_MOST", 8  # how many agents may be kept


class Warm:
    """The dealings of one run with templates. Made in the thread that launches, like `pool.key`.

    seconds: how long its agent is kept. env: the variables with which one is started. why: why
    this run starts cold, "" if it does not.
    """

    def __init__(self, seconds: float, env: Mapping[str, str]) -> None:
        boot.end_early()  # it has the variables of this run
        self.why = NOTHING_KEPT
        self.key = pool.key(env)
        self._seconds = seconds
        self._start_env = {n: v for n, v in env.items() if boot.is_early(n) or n in STARTING}
        self._facts = facts.read_facts()
        self._text = key_text(self.key, self._start_env)
        self._booted: Agent | None = None
        self._kept = self._found()
        if not self._kept:
            try:
                self._booted = Agent.start(self._start_env, room=True)
            except OSError:
                pass  # `lease` says so

    def _found(self) -> list[ListedTemplate]:
        """Give the templates that were started as this run would start one."""
        try:
            found = templates()
        except (OSError, Refused) as e:
            self.why = _said(e)
            return []
        same = [each for each in found if each.key == self._text]
        if found and not same:
            differ = min((_differing(each.key, self._text) for each in found), key=len)
            self.why = f"what is kept was started {' and '.join(differ)}"
        return same

    # -- before the run

    def lease(self, preload: Preload = NOTHING) -> Lease:
        """Get an agent with these imports: a template, or a new one. Raises OSError."""
        agent = self._take_template(preload)
        if agent is None:
            agent, self._booted = self._booted, None
            agent = agent or Agent.start(self._start_env, room=True)
        return pool.work(agent, self.key, preload)

    def _take_template(self, preload: Preload) -> Agent | None:
        """Take the template that lacks the fewest imports, if one fits."""
        wanted = "take", preload.message, self._facts, own_mark()
        nearest = sys.maxsize
        # Of those that waited equally long, the one that was used last.
        for kept in sorted(self._kept, key=lambda each: (-each.modules, -each.since)):
            agent = None
            try:
                agent = kept.connect()
                if not directory_of(agent.pid):
                    raise Unusable("this process may not look into what is kept")
                distance, why = ask(agent, wanted, "taken")
            except Gone:
                distance, why = 1, "what was kept has just ended, or works for another run"
            except Unusable as e:
                distance, why = 0, f"what is kept cannot be used: {e}"
            if agent is not None and not why:
                self.why = ""
                return agent
            if agent is not None:
                agent.let_go()
            if distance < nearest:
                nearest, self.why = distance, why
            if not distance:
                break  # another one could let this run wait as long
        return None

    @property
    def note(self) -> str:
        """One line about a run that starts cold, "" for others."""
        return f"warm: this run starts cold: {self.why} [P406]" if self.why else ""

    # -- after the run

    def release(self, lease: Lease) -> str:
        """Have the agent of a run that is over go on as a template; gives why not, or "".

        It is ended then.
        """
        most = read_most(os.environ)
        why = lease.preload.own or self._release(lease.agent, lease.preload, most)
        if why:
            lease.agent.close()
            return why
        lease.agent.let_go()
        try:
            for surplus in templates()[:-most]:
                surplus.end()
        except (OSError, Refused, Unusable):
            pass  # it ends by itself
        return ""

    def _release(self, agent: Agent, preload: Preload, most: int) -> str:
        if not most:
            return f"none may be kept ({MOST})"
        if agent.lost or agent.waiting:
            return "the agent does not answer"
        name = f"{NAME}-{self._text}-{len(preload.modules)}"
        terms = {"name": name, "seconds": self._seconds}
        try:
            (fault,) = ask(agent, ("keep", terms), "kept", [open_runtime(make=True)])
        except (OSError, Refused) as e:
            return _said(e)
        except Unusable as e:
            return str(e)
        except Gone:
            return "the agent is gone"
        return fault

    def close(self) -> None:
        """End an agent that was not needed."""
        if self._booted is not None:
            self._booted.close(pool.IDLE_GOING_TIME)


def _said(e: OSError | Refused) -> str:
    """Say in one line what is wrong with the directory for sockets."""
    return str(e) if isinstance(e, Refused) else f"the directory for sockets: {e.strerror or e}"


def key_text(key: tuple[Any, ...], env: Mapping[str, str]) -> str:
    """Give a text that is equal for two processes of this user that start an equal interpreter.

    key: of the pool. env: the variables with which it is started. What is among the facts (limits,
    affinity, rights, ...) is left out: it is compared separately.
    """
    executable, flags, _, blocked, ignored, *_ = key
    python = executable, *flags, sys.version, __version__, boot.ENTRY
    signals = sorted(map(int, blocked)), sorted(map(int, ignored))
    parts = python, signals, sorted(env.items())  # in the order of `HOW`
    return ".".join(hashlib.sha256(json.dumps(part).encode()).hexdigest()[:16] for part in parts)


def _differing(kept: str, own: str) -> list[str]:
    """Say how the one was started otherwise than the other."""
    parts = zip(HOW, kept.split("."), own.split("."), strict=False)
    return [how for how, one, other in parts if one != other]


def read_most(env: Mapping[str, str]) -> int:
    """Give how many may be kept; a value that cannot be read is ignored."""
    most = env.get(MOST, "")
    return int(most) if is_count(most, 19) else DEFAULT_MOST
