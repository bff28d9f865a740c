"""What signals to this command and to its agents mean for a job over several nodes.

Theory of operation. An engine that ends a job signals many processes: Slurm signals each agent, the
driver where it runs on a node of the job, and at a time limit each of them twice. That is one
event. So a signal that some process of the job has had already is a copy of it when it comes from
another one, and says nothing new. Only a second signal from the user to this very process kills
the ranks. Signals to agents never do, nor does a SIGTERM that Slurm may have sent here, since Slurm
sends SIGKILL itself when its time is over (KillWait).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager

from procession.cli.signals import PATIENCE, handled, preempt
from procession.engines.job import Job

HERE = ""  # this process, among the names of those that got a signal


class JobSignals:
    """Takes signals for a job, in the main thread.

    signals: those that end the job. notices: those that announce the end, with the seconds that are
    left then. forward: those that each rank gets. repeated: whether the engine signals this
    process, too, so that SIGTERM may come several times. received: those that were obeyed.
    """

    def __init__(
        self,
        job: Job,
        signals: Iterable[int],
        notices: Mapping[int, float],
        forward: Iterable[int],
        *,
        repeated: bool,
    ) -> None:
        self.received: list[int] = []
        self._job = job
        self._signals = frozenset(signals)
        self._notices = notices
        self._forward = frozenset(forward)
        self._repeated = repeated
        self._heard: dict[int, set[str]] = {}  # signal -> the processes that got it as one event
        self._own: list[int] = []  # signals to this process that end the job
        self._ignored: set[int] = set()
        self._patience = threading.Timer(PATIENCE, self._explain)
        self._patience.daemon = True

    @contextmanager
    def taken(self) -> Generator[None]:
        """Take signals of this process; handlers are put back. What was ignored stays so."""
        handlers = dict.fromkeys(self._forward, self._got)
        for number in {*self._signals, *self._notices} - self._forward:
            if signal.getsignal(number) is signal.SIG_IGN:
                self._ignored.add(number)
            else:
                handlers[number] = self._got
        try:
            with handled(handlers):
                yield
        finally:
            self._patience.cancel()

    def _got(self, number: int, _: object) -> None:
        self._take(number, HERE)

    def agent_got(self, number: int, who: str) -> None:
        """Take a signal that an agent got. who: which one, with the name of its machine."""
        name = signal.Signals(number).name
        known = number in {*self._signals, *self._notices, *self._forward} - self._ignored
        if not known and number != signal.SIGTERM:
            if not self._is_copy(number, who):
                self._job.say(
                    f"procession: {who} got {name}, which does nothing here: see --forward, "
                    "--preempt"
                )
            return
        if self._take(number, who):
            self._job.say(f"procession: {who} got {name}")

    def _take(self, number: int, who: str) -> bool:
        """Obey a signal; gives whether it was new."""
        copy = self._is_copy(number, who)
        if number in self._forward:
            if not copy:
                self._job.signal_all(number)
            return not copy
        if number in self._notices:
            if not self.received:
                self.received.append(number)
                preempt(self._job, number, self._notices[number])
                return True
            return False
        return self._stop(number, who)

    def _is_copy(self, number: int, who: str) -> bool:
        heard = self._heard.setdefault(number, set())
        if who in heard:  # each process hears of an event once: this is another one
            heard.clear()
        copy = bool(heard)
        heard.add(who)
        return copy

    def _stop(self, number: int, who: str) -> bool:
        stopping = any(n not in self._notices for n in self.received)
        if who == HERE:
            again = self._repeated and number == signal.SIGTERM and number in self._own
            if not again:
                self._own.append(number)
            if len(self._own) > 1:
                self.received.append(number)
                self._job.kill(wait=False)
                return True
        if stopping:
            return False
        self.received.append(number)
        self._job.stop(signal=number, notice=0.0, wait=False)
        self._patience.start()
        return True

    def _explain(self) -> None:
        if self._job.state.final:
            return
        name = signal.Signals(self.received[-1]).name
        how = "once more kills them"
        if not self._own:
            how = "SIGINT to this command, twice, kills them"
        elif self._repeated and self._own == [signal.SIGTERM]:
            how = "SIGINT kills them"
        self._job.say(f"procession: {name}: waiting for ranks to end; {how}")
