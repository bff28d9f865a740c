"""Agents that wait for the next launch.

An agent serves one group at a time, so that everything below it belongs to that group. When the
group is over and nothing is left below, it waits here, idle, for the next one, which then starts in
milliseconds. It can be used again by a launch that would start an equal one: same interpreter and
flags, same variables that an interpreter or the C library reads at its start, and all else that a
process passes on (`system.facts`), for a rank is to be what a fresh child of its caller would be. A
launcher that has changed, above all one that has given up rights, closes at its next launch the
agents that are still what it was.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence

from procession.agent import boot
from procession.agent.client import Agent, reap_dying
from procession.agent.wanted import Preload
from procession.system.facts import read_plain
from procession.system.processes import is_dying
from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Key = tuple[Any, ...]

MOST_IDLE = 2
IDLE_SECONDS = 300.0
IDLE_GOING_TIME = 2.0  # seconds that one with nothing below it may take to go
SIGNALS = tuple(sorted(signal.valid_signals()))


class Lease(Value):
    """An agent at work for one group: what it is like, and what it has imported."""

    key: Key
    preload: Preload
    agent: Agent


NOTHING = Preload()
_lock = threading.Lock()
_idle: list[Lease] = []


def _early(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(i for i in env.items() if boot.is_early(i[0])))


def key(env: Mapping[str, str], passed: Sequence[int] = ()) -> Key:
    """Say what an interpreter that is started now with `env`, by this thread, would be like.

    passed: descriptors that its ranks inherit.
    """
    flags = tuple(boot.interpreter_flags())
    blocked = frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    ignored = tuple(n for n in SIGNALS if signal.getsignal(n) is signal.SIG_IGN)
    # The last is also looked at alone, see `_changed`.
    return sys.executable, flags, _early(env), blocked, ignored, tuple(passed), read_plain()


def prepare(env: Mapping[str, str], passed: Sequence[int] = ()) -> Key:
    """Start an agent that `lease` can take, if there is no idle one; gives its key.

    It boots while the caller goes on. Nothing is raised: if none can be started, `lease` says so.
    """
    wanted = key(env, passed)
    with _lock:
        _take_early(wanted)
        surplus = _changed(wanted)
        if not any(entry.key == wanted for entry in _idle):
            try:
                surplus += _keep(Lease(wanted, NOTHING, Agent.start(env, passed=passed)))
            except OSError:
                pass
    for each in surplus:
        each.close(IDLE_GOING_TIME)
    return wanted


def _changed(wanted: Key) -> list[Agent]:
    """Remove the idle ones that are not what this thread is now. To be called with the lock."""
    others = [entry for entry in _idle if entry.key[-1] != wanted[-1]]
    for entry in others:
        _idle.remove(entry)
    return [entry.agent for entry in others]


def _keep(lease: Lease) -> list[Agent]:
    """Keep one; gives those that are too many now, to be closed. To be called with the lock."""
    _idle.append(lease)
    surplus = [e.agent for e in _idle[:-MOST_IDLE]]
    del _idle[:-MOST_IDLE]
    return surplus


def _take_early(wanted: Key) -> None:
    """Take what was started early, or end it; of its key, variables and `passed` may differ."""
    while boot.early:
        started = boot.early[-1]
        if wanted == (*wanted[:2], _early(started.env), *wanted[3:-2], (), wanted[-1]):
            _idle.append(Lease(wanted, NOTHING, Agent(started.pid, started.sock)))
        else:
            started.end()
        boot.early.pop()  # not before: each one is known all the time, see `others_than`


def end_untaken(started: boot.BootedAgent) -> None:
    """End one that was started early, if no launch has taken it."""
    with _lock:
        if started in boot.early:
            boot.early.remove(started)
            started.end()


def lease(env: Mapping[str, str], wanted: Key, preload: Preload = NOTHING) -> Lease:
    """Take an idle agent, or start one, with this environment and these imports.

    wanted: its key, from `prepare`. Raises OSError.
    """
    taken = _take_agent(wanted, preload)
    agent = taken.agent if taken is not None else Agent.start(env, passed=wanted[-2])
    return work(agent, wanted, preload)


def work(agent: Agent, wanted: Key, preload: Preload) -> Lease:
    """Use an agent for a group; it makes the imports that it lacks."""
    if preload.modules or preload.watched:
        # Also to one that has them all: it says again what keeps it from forking.
        agent.importing = preload.modules
        agent.send(("preload", preload.message), [], [])
    return Lease(wanted, preload, agent)


def _take_agent(wanted: Key, preload: Preload) -> Lease | None:
    """Take the idle agent that lacks the fewest imports, if one fits."""
    reap_dying()  # nor is a zombie left of one, where none is started
    with _lock:
        for entry in [e for e in _idle if _has_ended(e.agent)]:
            _idle.remove(entry)
            entry.agent.close(IDLE_GOING_TIME)
        fitting = [e for e in _idle if e.key == wanted and not preload.misfit(e.preload)]
        if not fitting:
            return None
        entry = max(fitting, key=lambda e: len(e.preload.modules))
        _idle.remove(entry)
    entry.agent.wake()  # it may have been stopped (SIGSTOP) while it was idle
    return entry


def _has_ended(agent: Agent) -> bool:
    """Whether an idle one is of no use any more.

    One that was killed gives its memory back before its socket is closed, which takes milliseconds.
    """
    if agent.intact:
        agent.receive()  # notices its end
    return not agent.intact or agent.lost or is_dying(agent.pid)


def release(lease: Lease) -> None:
    """Give an agent back; it is kept for the next launch if it still answers.

    The numbers of descriptors that were passed to it may mean other files by then.
    """
    if lease.preload.own or lease.agent.lost or lease.agent.waiting or lease.key[-2]:
        lease.agent.close()
        return
    with _lock:
        lease.agent.send(("idle", IDLE_SECONDS), [], [])
        surplus = _keep(lease)
    for each in surplus:
        each.close(IDLE_GOING_TIME)


def close() -> None:
    """End the idle agents. The next launch starts a new one."""
    with _lock:
        surplus = [e.agent for e in _idle]
        _idle.clear()
    for agent in surplus:
        agent.close(IDLE_GOING_TIME)
    reap_dying()


def _forget_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _idle.clear()


atexit.register(close)
os.register_at_fork(after_in_child=_forget_in_child)
