"""The link to the forkserver: its messages, commands to it, and what is done without its answer.

Theory of operation. Every command that ends ranks has a deadline for its acknowledgement. A
forkserver that misses it may be frozen (a cgroup, a debugger, a disk that does not answer, memory
that is swapped out), or stuck in an import; whether it will ever come back cannot be known. So from
then on, until the end of the group, the launcher does its work: it signals ranks by their pidfds
and process groups, reads the exit status of zombies in /proc, and looks through /proc for what
ranks left behind. The forkserver itself is killed last: its death sends the parent-death signal to
the ranks, which would cut their grace period short. A forkserver that wakes up before does not obey
commands whose deadline has passed, so that no rank gets the stop signal twice.

If the forkserver was killed, the launcher does the same from the sweep on.

To start ranks takes as long as it takes: a forkserver imports what they need. But one that is
stopped (SIGSTOP, a debugger) does nothing. So while ranks are being started, its state is looked at
each second: it is continued, and if it is still stopped after some seconds, the start has failed.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable

from procession.explain.records import RankRecord
from procession.forkserver import client
from procession.forkserver.client import ForkServer
from procession.rules.tables import WorkerEvent
from procession.supervise.exits import event_of
from procession.supervise.ranks import Ranks
from procession.system.eventloop import EventLoop
from procession.system.identity import own_mark
from procession.system.processes import STOPPED, describe, state_of
from procession.system.remains import Remains

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Call = Callable[[], None]

ANSWER_SECONDS = 1.0  # for the forkserver to carry out a command and to acknowledge it
SHARING_SECONDS = 0.1  # the same while it runs a shared set-up, and has no rank
LATE_SECONDS = 0.1  # more, so that its answer has arrived where it was not too late
LOOK_EVERY = 0.02  # seconds between two looks for what is left
ENDING_TIME = 0.05  # seconds to see how a forkserver ended whose socket is closed
STANDS_EVERY = 1.0  # seconds between two looks at a forkserver that starts ranks
STANDS_MOST = 4  # looks that may find it stopped, one after the other
_sweeps = itertools.count(1)  # a forkserver goes from group to group: no two may be alike


class Link:
    """Commands to one forkserver, and its messages. For the loop's thread.

    swept: called when nothing is left of the group. preloaded: called with why the forkserver may
    not fork ranks ("" if it may), with the modules that it could not import, and with the module
    whose import was at fault. notes: for the report, to which it is added that the forkserver did
    not answer.

    lost: why the forkserver is lost, "" while it is not. server: the forkserver. on_heard: to be
    set; called after its messages were taken.
    """

    def __init__(
        self,
        loop: EventLoop,
        server: ForkServer,
        ranks: Ranks,
        swept: Call,
        preloaded: Callable[[str, list[str], str], None],
        notes: list[str],
    ) -> None:
        self._loop = loop
        self._ranks = ranks
        self._swept = swept
        self._preloaded = preloaded
        self._notes = notes
        self.on_heard: Call = _nothing
        self._take(server)

    def _take(self, server: ForkServer) -> None:
        self.server = server
        self.lost = ""
        self._asked: dict[
            int, Call
        ] = {}  # commands without acknowledgement, and what replaces each
        self._last = 0
        self._answer_by = 0  # when the commands that are not done yet are too late, in ns
        self._sweep = 0  # the number of the last sweep that was asked for
        self._sweep_signal = 0  # of the sweep that is under way, there or here
        self._remains: Remains | None = None  # of a sweep that is under way here
        self._expects = False  # ranks to be started
        self._stands = 0  # looks that have found it stopped, one after the other
        self._loop.watch(server.fileno(), self.hear)

    def renew(self, server: ForkServer) -> None:
        """Go on with another forkserver."""
        self._ranks.served_by(server)
        self._take(server)

    def leave(self) -> None:
        """Hear no more of the forkserver: the group is over."""
        self._loop.forget(self.server.fileno())

    # -- its messages

    def hear(self) -> None:
        """Take the messages of the forkserver, and send what waits."""
        self.server.flush()
        for messages, fds in self.server.receive():
            for kind, *words in messages:
                self._hear_one(kind, words, fds)
        if self.server.lost:
            self._lose()
        else:
            self.flush()
            self.on_heard()

    def _hear_one(self, kind: str, words: list[Any], fds: list[int]) -> None:
        """Take one message, and its pidfd off `fds`; see `forkserver.protocol`."""
        ranks = self._ranks
        if kind == "spawned":
            rank, pid, at, sent = words
            ranks.spawned(rank, pid, at, fds.pop(0) if sent >= 0 else -1)
        elif kind in ("done", "late"):
            instead = self._answered(words[0])
            if kind == "late" and instead is not None:
                instead()
        elif kind in ("ready", "exited", "failed"):
            rank, began, *rest = words
            if ranks.has_now(rank, began):
                self._heard_of(kind, rank, rest)
        elif kind == "signalled":
            number, reached, at = words
            for rank, began in reached:
                if ranks.has_now(rank, began):
                    ranks.records[rank].group_signalled = True
                    ranks.happened(event_of(number), rank, at)
        elif kind == "cancelled":
            self.cancelled(*words)
        elif kind == "swept":
            # Not the late answer to an earlier one, or while the launcher looks for itself.
            if words[0] == self._sweep and self._remains is None:
                self._sweep_signal = 0
                self._swept()
        elif kind == "preloaded":
            self.server.importing = ()
            self._preloaded(*words)
        elif kind == "sharing":
            self.server.sharing = words[0]
        elif kind == "shared":
            self.server.sharing = ""
            self._preloaded(words[0], [], "")

    def _heard_of(self, kind: str, rank: int, words: list[Any]) -> None:
        """Take a message about the process that a rank has now."""
        if kind == "ready":
            self._ranks.happened(WorkerEvent.READY, rank, *words)
        elif kind == "exited":
            self._ranks.exited(rank, *words)
        else:
            stage, errno, text, at = words
            self._ranks.start_failed(rank, stage, OSError(errno, text), at)

    def cancelled(self, ranks: list[int], at: int | None = None) -> None:
        """Take note of ranks that will never be started."""
        at = time.monotonic_ns() if at is None else at
        for rank in ranks:
            self._ranks.happened(WorkerEvent.CANCELLED, rank, at)

    def end_sharing(self, seconds: float) -> bool:
        """Take note that the ranks are to be there now; whether a shared set-up kept them."""
        late = [r.rank for r in self._ranks.records if r.pid is None and self._ranks.lives(r.rank)]
        if not self.server.sharing or not late:
            return False
        why = OSError(0, f"it had not ended after {seconds:g} s")
        self._ranks.start_failed(late[0], f"finish the shared set-up {self.server.sharing}", why)
        return True

    def _lose(self) -> None:
        self._loop.forget(self.server.fileno())
        self.lost = self.server.crash or self.server.ending(ENDING_TIME) or "it was killed"
        if self.server.sharing:
            how = self.server.ending()
            self.lost = f"it ended in the shared set-up {self.server.sharing}{how and f': {how}'}"
        self._ranks.orphaned(self.lost)
        self._act()
        if self._sweep_signal and self._remains is None:
            self._sweep_here(self._sweep_signal)

    # -- commands

    def flush(self) -> None:
        """Have the loop send what the socket did not take."""
        self._loop.want_write(self.server.fileno(), self.server.waiting)

    def send(self, *message: Any) -> None:
        """Send a message to which there is no answer."""
        self.server.send(message, [], [])
        self.flush()

    def signal(self, chosen: list[int], number: int) -> None:
        """Signal the processes of these ranks."""
        ranks = [r for r in chosen if self._ranks.lives(r)]  # it may have waited for stacks
        records = [self._ranks.records[r] for r in ranks]
        now = time.monotonic_ns()
        for record in records:
            record.signals = {int(number): now, **record.signals}
        self._command(
            ("signal", int(number), ranks),
            lambda: self._signal_here(records, number),
            once=number != signal.SIGKILL,
        )

    def expect(self) -> None:
        """Watch that the forkserver is not stopped, until the ranks that it starts are there."""
        if not self._expects:
            self._expects, self._stands = True, 0
            self._loop.after(("stands", self), STANDS_EVERY, self._look_whether_it_stands)

    def _look_whether_it_stands(self) -> None:
        late = self._ranks.starting()
        if not late or self.lost or self.server.silent:
            self._expects = False
            return
        self._loop.after(("stands", self), STANDS_EVERY, self._look_whether_it_stands)
        state = state_of(self.server.pid)
        if state is None or state.letter not in STOPPED:
            self._stands = 0
            return
        self._stands += 1
        if self._stands < STANDS_MOST:
            self.server.wake()
            return
        self._expects = False
        self._loop.cancel(("stands", self))
        why = f"its forkserver (pid {self.server.pid}) {describe(self.server.pid)}"
        gone = self._ranks.records[late[0]].pid is None
        self._ranks.start_failed(late[0], "start", OSError(0, why), gone=gone)

    def cancel(self) -> None:
        """Start none of the ranks that were asked for and have no process yet."""
        for message in self.server.drop_unsent():
            if message[0] == "spawn":
                self.cancelled([job["rank"] for job in message[1]])
        self._command(("cancel",), self._cancel_here)

    def sweep(self, number: int) -> None:
        """Signal whatever the ranks have left behind, until nothing is left."""
        self._sweep, self._sweep_signal = next(_sweeps), int(number)
        self._command(
            ("sweep", int(number), self._sweep),
            lambda: self._sweep_here(number),
            once=number != signal.SIGKILL,
        )

    def _command(self, message: tuple[Any, ...], instead: Call, *, once: bool = False) -> None:
        """Have the forkserver do something; `instead` is called if it does not say so in time.

        once: it must not be done twice: the forkserver does not do it after the deadline.
        """
        if self.server.silent or self.server.lost:
            instead()
            return
        self.server.wake()
        self._last += 1
        if not self._asked:
            self._await_answer()
        self._asked[self._last] = instead
        # All that it has not answered by then is done here, so this must be done by then as well.
        self.send("do", self._last, self._answer_by if once else 0, message)
        if self.server.lost:
            self._act()

    @property
    def _patience(self) -> float:
        """How many seconds the forkserver has for an answer."""
        return SHARING_SECONDS if self.server.sharing else ANSWER_SECONDS

    def _await_answer(self) -> None:
        self._answer_by = time.monotonic_ns() + int(self._patience * 1e9)
        self._loop.after(self, self._patience + LATE_SECONDS, self._unanswered)

    def _answered(self, which: int) -> Call | None:
        """Take note of an answer; gives what replaces that command, None if that was done."""
        instead = self._asked.pop(which, None)
        self._loop.cancel(self)
        if self._asked:
            self._await_answer()
        return instead

    def _unanswered(self) -> None:
        server = self.server
        what = "does not answer"
        if server.sharing:
            what = f"was still in the shared set-up {server.sharing}"
        elif server.importing:
            what = f"was still importing {', '.join(server.importing)}"
        state = describe(server.pid)
        server.silent = True
        self._act()
        self._notes.append(
            f"the forkserver (pid {server.pid}) {what}: it {state}; the launcher ended the ranks "
            "without it, and then killed it"
        )

    # -- without its answer

    def _act(self) -> None:
        """Carry out the commands that the forkserver has not acknowledged."""
        self._loop.cancel(self)
        while self._asked:
            first = next(iter(self._asked))
            self._asked.pop(first)()

    def _signal_here(self, records: list[RankRecord], number: int) -> None:
        for record in records:
            same = self._ranks.records[record.rank] is record  # and not one started since
            if same and self._ranks.signal_group(record.rank, number):
                self._ranks.happened(event_of(number), record.rank, time.monotonic_ns())

    def _cancel_here(self) -> None:
        each = zip(self._ranks.records, self._ranks.sources, strict=True)
        self.cancelled([r.rank for r, source in each if source.asked and r.pid is None])

    def _sweep_here(self, number: int) -> None:
        records, server = self._ranks.records, self.server
        spared = [r.pid for r in records if r.group_signalled and r.pid is not None]
        if self._remains is None:
            self._remains = Remains(server.pid, server.began, own_mark(), server.page)
        elif number != signal.SIGKILL:  # in a hurry: for all
            spared = []
        self._remains.begin(spared)
        self._sweep_signal = int(number)
        self._look()

    def _look(self) -> None:
        assert self._remains is not None
        with client.starting():
            left = self._remains.find(client.others_than(self.server))
        self._remains.signal(self._sweep_signal, left)
        if not self._remains.over:
            self._loop.after(("remains", self), LOOK_EVERY, self._look)
            return
        self._remains, self._sweep_signal = None, 0
        self._asked.clear()
        self._loop.cancel(self)
        self._loop.cancel(("remains", self))
        if self.server.silent and not self.server.lost:
            self.leave()
            self.server.kill()
        self._swept()


def _nothing() -> None:
    pass
