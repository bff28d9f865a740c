"""The launcher's end of a group's agent: messages, and what is done if it does not answer.

An agent that has ranks runs no code of users, so it answers, unless somebody has stopped it
(SIGSTOP, a debugger, a frozen cgroup). So whoever asks it for something sends SIGCONT as well; and
if it is silent for `ANSWER_SECONDS` then, and does not just wait for a CPU, it is killed. Its ranks
die with it, by their parent-death signal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from procession.agent.client import Agent
from procession.system.eventloop import EventLoop
from procession.system.files import read
from procession.system.processes import STOPPED, describe, state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Take = Callable[[str, Any, list[int]], None]

ANSWER_SECONDS = 2.0  # for an agent to answer
ENDING_TIME = 0.05  # seconds to see how an agent ended whose socket is closed
STANDS_EVERY = 1.0  # seconds between two looks at an agent that has something to do
_pings = itertools.count(1)  # an agent goes from group to group: no two may be alike
STANDS_MOST = 4  # looks that may find it stopped, one after the other


class AgentLink:
    """Messages to one agent, and from it. For the loop's thread.

    take: takes a message: its kind, what it says, and the descriptors beside it, of which it
    removes its own; heard: called after all that have come. lose: called when the agent is gone,
    with the reason, and whether it was killed here. busy: says whether the agent has something to
    do by itself now, as to start ranks, or to end them in time.

    server: the agent. lost: why it is lost, "" while it is not. left: nothing is heard of it any
    more, and it is sent nothing: it is lost, or the group is over. late: it was asked why ranks
    were not in their program in time.
    """

    def __init__(
        self,
        loop: EventLoop,
        server: Agent,
        take: Take,
        heard: Callable[[], None],
        lose: Callable[[str, bool], None],
        busy: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._take = take
        self._heard = heard
        self._lose = lose
        self._busy = busy
        self._ping = 0  # the last one
        self.renew(server)

    def renew(self, server: Agent) -> None:
        """Go on with another agent."""
        self.server = server
        self.lost, self.left, self.late = "", False, False
        self._stands = 0  # looks that have found it stopped, one after the other
        self._looks = self._waits = False  # whether it stands; for an answer
        self._loop.watch(server.fileno(), self.exchange)
        if server.pidfd >= 0:
            self._loop.watch(server.pidfd, self._hear_the_last)

    def leave(self) -> None:
        """Hear no more of the agent."""
        self.left = True
        self._loop.forget(self.server.fileno())
        self._loop.forget(self.server.pidfd)
        self._loop.cancel(self)
        self._loop.cancel(("stands", self))

    def exchange(self) -> None:
        """Take the messages of the agent, and send what waits."""
        server = self.server
        server.flush()
        for messages, fds in server.receive():
            for kind, *words in messages:
                if kind == "pong":
                    self._answered(*words)
                else:
                    self._take(kind, words, fds)
        if server.lost and not self.left:
            how = server.crash or server.ending(ENDING_TIME)
            if not how and self.deaf:  # what it runs has closed its socket, and goes on
                self.kill(f"it has closed its connection, {self._doing}")
            else:
                self._end(how or "it was killed", ours=False)
        elif not self.left:
            self.flush()
            self._heard()

    def _hear_the_last(self) -> None:
        """Take what an agent has told that is dead: what it has forked may hold its socket."""
        self._loop.forget(self.server.pidfd)
        while not self.left and self.server.says_more:
            self.exchange()
        if not self.left:
            self.server.lost = True
            self.exchange()

    def _end(self, why: str, *, ours: bool) -> None:
        self.leave()
        self.lost = why
        self._lose(why, ours)

    def kill(self, why: str) -> None:
        """Kill the agent, which does not answer."""
        if not self.left:
            self.server.kill()
            self._end(why, ours=True)

    # -- to the agent

    def flush(self) -> None:
        """Have the loop send what the socket did not take."""
        self._loop.want_write(self.server.fileno(), self.server.waiting)

    def send(self, *message: Any, fds: tuple[int, ...] = ()) -> None:
        """Send a message to which there is no answer, and descriptors, which stay the caller's."""
        if not self.left:
            self.server.send(message, list(fds), [])
            self.flush()

    @property
    def deaf(self) -> bool:
        """Whether the agent imports, or makes what ranks share: it hears nothing, and has none."""
        return bool(self.server.importing or self.server.sharing) and not self.left

    def is_deaf(self) -> bool:
        """Look whether the agent is deaf, by what it has told until now."""
        if self.deaf:
            self.exchange()
        return self.deaf

    def end_if_late(self, seconds: float) -> None:
        """Kill an agent that is deaf after so many seconds; ask another one, which is to fork."""
        if self.is_deaf():
            self.kill(f"it was still {self._doing} after {seconds:g} s")
        else:
            self.late = True
            self.ask()

    @property
    def _doing(self) -> str:
        sharing, importing = self.server.sharing, self.server.importing
        return f"in the shared set-up {sharing}" if sharing else f"importing {', '.join(importing)}"

    def ask(self, *message: Any) -> None:
        """Send a message that has to be obeyed; it is killed if it does not, unless it is deaf."""
        if self.left:
            return
        if message:
            self.send(*message)
        self.server.wake()
        self._ping = next(_pings)
        self.send("ping", self._ping)
        if not self._waits and not self.deaf:
            self._waits = True
            self._loop.after(self, ANSWER_SECONDS, self._unanswered)

    def _answered(self, which: int) -> None:
        if which == self._ping:
            self._waits = False
            self._loop.cancel(self)

    def _unanswered(self, before: int | None = None) -> None:
        """Kill it, unless it waits for a CPU. before: its ns on a CPU, when it was seen to wait."""
        pid = self.server.pid
        state, had = state_of(pid), int((read(f"/proc/{pid}/schedstat") or "0").split()[0])
        few = before is None or had - before < ANSWER_SECONDS * 5e8
        if few and state is not None and state.letter == "R":
            self._loop.after(self, ANSWER_SECONDS, lambda: self._unanswered(had))
        else:
            self.kill(f"it did not answer for {ANSWER_SECONDS:g} s: it {describe(pid)}")

    def look_after(self) -> None:
        """Watch that the agent is not stopped, while it is busy."""
        if not self._looks:
            self._looks, self._stands = True, 0
            self._loop.after(("stands", self), STANDS_EVERY, self._look_whether_it_stands)

    def _look_whether_it_stands(self) -> None:
        if self.left or not self._busy():
            self._looks = False
            return
        self._loop.after(("stands", self), STANDS_EVERY, self._look_whether_it_stands)
        state = state_of(self.server.pid)
        stands = state is not None and state.letter in STOPPED
        self._stands = self._stands + 1 if stands else 0
        if self._stands >= STANDS_MOST:
            self.kill(f"it {describe(self.server.pid)}")
        elif stands:
            self.server.wake()
