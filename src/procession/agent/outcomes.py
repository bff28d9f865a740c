"""What the ranks of a group tell of their outcomes, while they live and when they are gone.

A rank that has reported its failure waits (see `worker.outcome`): at its exit, its peers would
notice the end of their connections, and fail as well. It is answered when those have the stop
signal, before which their stacks are taken.
"""

from __future__ import annotations

from procession.agent.channels import Channel
from procession.agent.order import Order, Process
from procession.rules.messages import RankEvent
from procession.rules.tables import Phase, WorkerEvent
from procession.worker.outcome import DONE, VALUE

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    import _socket as socket
    from collections.abc import Callable, Sequence
    from typing import Any

    from procession.agent.limits import Limits
    from procession.rules.lifecycle import Lifecycle
    from procession.system.eventloop import EventLoop

GOOD = (DONE, VALUE)  # kinds of frames that tell of a good end
MOST_WAITING = 1 << 20  # bytes that wait for the launcher; then channels are not read
MOST_FILES = 200  # descriptors that wait for it


class OutcomeChannels:
    """The outcome channels of the ranks. words: of the group, see `Run`.

    handle: takes the event that a rank has reported. report: see `Run`.
    """

    def __init__(
        self,
        words: dict[str, Any],
        life: Lifecycle,
        loop: EventLoop,
        limits: Limits,
        handle: Callable[[RankEvent], None],
        report: Callable[..., None],
    ) -> None:
        self._may: dict[str, Any] = words["may"]
        self._alone: bool = words["alone"]
        self._life = life
        self._loop = loop
        self._limits = limits
        self._handle = handle
        self._report = report
        self._waiting: list[Channel] = []  # of ranks that have failed; see `let_exit`
        self._paused: dict[int, Channel] = {}  # channels that are not read now, by rank

    def begin_attempt(self, processes: Sequence[Process | None], order: Order) -> None:
        """Begin with the ranks of an attempt."""
        self._processes = processes
        self._order = order
        self._left = {*range(len(processes))}  # ranks that have not returned
        self._waiting.clear()
        self._paused.clear()

    def channel(self, rank: int, sock: socket.socket) -> Channel:
        """Give the channel of a rank that was started. sock: our end of it."""
        channel = Channel(sock, rank, self._may, self._report)
        self._loop.watch(channel.fd, lambda: self._read(rank), first=True)
        return channel

    def _read(self, rank: int) -> None:
        process = self._processes[rank]
        channel = process.channel if process is not None else None
        if process is not None and channel is not None:
            self._take_news(process, channel, channel.read())

    def last(self, process: Process) -> tuple[bool, bool]:
        """Read all that a process has sent that is dead.

        Gives whether it has told of a good end, and whether it was in the middle of its outcome.
        """
        channel, process.channel = process.channel, None
        if channel is None:
            return False, False
        self._take_news(process, channel, channel.read(whole=True))
        self._loop.forget(channel.fd)
        channel.close()
        if channel in self._waiting:
            self._waiting.remove(channel)
        return channel.outcome in GOOD, channel.torn

    def _take_news(self, process: Process, channel: Channel, news: bool) -> None:
        rank, known = process.rank, self._life.ranks[process.rank]
        if channel.ended:
            self._loop.forget(channel.fd)
            if not channel.outcome and process.silence is None:
                self._order.silent(process)
                self.one_fails(rank)
        if not news or known.gone or known.reported:
            return
        good = channel.outcome in GOOD
        self._order.reported(channel.at)
        if good:
            self._returned(rank)
        else:
            self._waiting.append(channel)
            self.one_fails(rank)
        self._handle(RankEvent(WorkerEvent.REPORTED, rank, channel.at, good))

    def _returned(self, rank: int) -> None:
        """Tell the ranks when the last one has returned, where there are no more than these."""
        self._left.discard(rank)
        if not self._left and self._alone:
            self._limits.tell_returned()

    def one_fails(self, rank: int) -> None:
        """Look at who lives, unless this rank only obeys."""
        if self._life.ranks[rank].stop_at is None:
            self._order.see_who_lives()

    def next_turn(self, size: int, files: int) -> None:
        """Do what is to be done in each turn. size, files: what waits for the launcher."""
        if self._waiting:
            self._let_exit()
        self._pace(size > MOST_WAITING or files > MOST_FILES)

    def _let_exit(self) -> None:
        """Answer ranks that have reported their failure, unless others are still to be seen to.

        What is seen to on other machines is not known here: there the rank waits for its whole
        time.
        """
        life = self._life
        if any(k.expects_signal for k in life.ranks):
            return
        if self._alone or life.stop_wanted or life.phase is not Phase.STOPPING:
            for channel in self._waiting:
                channel.answer()
            self._waiting.clear()

    def _pace(self, too_much: bool) -> None:
        """Read no channels while too much waits for the launcher."""
        if too_much and not self._paused:
            for channel in self.channels:
                if not channel.ended:
                    self._loop.forget(channel.fd)
                    self._paused[channel.rank] = channel
        elif self._paused and not too_much:
            paused, self._paused = self._paused, {}
            for rank, channel in paused.items():
                if channel.fd >= 0:
                    self._loop.watch(channel.fd, lambda rank=rank: self._read(rank), first=True)

    @property
    def channels(self) -> list[Channel]:
        """Those of the processes that live, or whose last words were not read yet."""
        return [p.channel for p in self._processes if p is not None and p.channel is not None]

    def leave(self) -> None:
        """Close the channels in a rank, whose loop is that of the agent.

        By their objects: a socket that is collected later would close what has its number then.
        """
        for channel in self.channels:
            channel.close()

    def close(self) -> None:
        """Close the channels."""
        for channel in self.channels:
            self._loop.forget(channel.fd)
        self.leave()
