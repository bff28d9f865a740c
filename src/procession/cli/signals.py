"""What signals to this command, and to the node processes of its job, mean for a run.

Theory of operation. The first signal stops the run, a second one from the user kills it. An engine
that ends a job signals many processes: Slurm signals each node process, the driver where it runs on
a node of the job, and at a time limit each of them twice. That is one event. So a signal that some
process of the job has had already is a copy of it when it comes from another one, and says nothing
new. Only a second signal from the user to one process kills the ranks: to this one, or to the
launcher of another machine. A signal to a node process that an engine has started never does, nor
does a SIGTERM that Slurm may have sent, since Slurm sends SIGKILL itself when its time is over
(KillWait).

`--preempt` says who may take the machine away, by which signal, and how long before.
The time that is left after such a signal is divided. First, ranks may end by themselves, which they
do when `procession.stopping()` tells them. Then comes the stop signal, with a quarter of the time,
and not more than the shutdown time-out. The last second or so is for the launcher's report.

Sources: Slurm, `sbatch --signal` (USR1 by what its documentation suggests), and KillWait, 30 s by
default, from SIGTERM to SIGKILL: https://slurm.schedmd.com/sbatch.html, slurm.conf.html.
Kubernetes, terminationGracePeriodSeconds, 30 by default, from SIGTERM to SIGKILL:
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress

from procession.cli import process
from procession.cli.readers import seconds, signals
from procession.group.group import Group
from procession.values.base import is_count
from procession.values.errors import SpecError
from procession.values.events import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.cli.request import Request

    Handler = Callable[[int, Any], object]

HERE = ""  # this process, among the names of those that got a signal
PATIENCE = 1.0  # seconds after a signal until it is said that ranks are still being ended
LONG = 5.0  # and after a failure
KILL_WAIT = 30.0  # seconds
POD_GRACE = 30.0
SLURM_NOTICE = 60.0
FROM_1: Any = seconds("seconds, 1 or more", 1)
JOB_END = "SLURM_JOB_END_TIME"  # seconds since 1970
MARGIN = 0.1  # of what is left, for the launcher itself; at least a second, at most ten


def read_preemption(text: str, where: str) -> dict[int, float]:
    """Read the signals that announce the end, each with the seconds that are left then.

    Raises SpecError.
    """
    who, colon, number = text.partition(":")
    said: float = FROM_1(number, where) if colon else 0
    if who == "slurm":
        return {int(signal.SIGUSR1): said or SLURM_NOTICE, int(signal.SIGTERM): KILL_WAIT}
    if who == "kubernetes":
        return {int(signal.SIGTERM): said or POD_GRACE}
    if not said or not who.startswith("SIG"):
        raise SpecError(
            f"{where} must be slurm, kubernetes, or a signal with the seconds that are left then, "
            f"as in SIGUSR1:120, not {text!r}"
        )
    return dict.fromkeys(signals(who, where), said)


def seconds_left(said: float, number: int) -> float:
    """Give the seconds that are left now: `said`, or less if Slurm's job ends earlier."""
    text = os.environ.get(JOB_END, "")
    if number == signal.SIGTERM or not is_count(text, 19):
        return said
    known = int(text) - time.time()
    return min(said, known) if known > 0 else said


def divided(left: float, grace: float) -> tuple[float, float]:
    """Divide what is left into notice and grace, in seconds."""
    left -= min(max(1.0, MARGIN * left), 10.0, left / 2)
    grace = min(grace, left / 4)
    return left - grace, grace


@contextmanager
def handled(handlers: Mapping[int, Handler]) -> Generator[None]:
    """Handle signals while the block runs, in the main thread; what did it before is put back.

    What is ignored (as by nohup) stays so.
    """
    before: dict[int, Callable[..., object] | int | None] = {}
    for number, handler in handlers.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def suspended(group: Group) -> AbstractContextManager[None]:
    """Let Ctrl-Z stop the ranks, too, which have no terminal; `fg` continues them."""

    def suspend(*_: object) -> None:
        group.driver.request_suspension()

    return handled({signal.SIGTSTP: suspend})


@contextmanager
def woken_by_signals(run: Group) -> Generator[None]:
    """Let every signal wake the loop of a run at once; in the main thread, which drives it.

    Otherwise a signal just before the loop sleeps would be handled only at the next event.
    """
    try:
        read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield  # no descriptor is left: the loop is woken by almost all signals anyway
        return
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    run.driver.loop.watch(read_end, lambda: os.read(read_end, 4096))
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)  # before the descriptor's number is free
        os.close(read_end)
        os.close(write_end)


class RunSignals:
    """Takes signals for a group or a job, in the main thread.

    request: says which ones. Its notices announce the end: ranks can see it by
    `procession.stopping()`, and those with a handler for the signal get it. A notice does not kill.
    Kubernetes sends its SIGTERM once: a second one comes from a person, and is like any other of
    its signals; Slurm sends several. say: writes a line. received: the signals that were obeyed.
    """

    def __init__(self, run: Group, request: Request, say: Callable[[str], object]) -> None:
        self.received: list[int] = []
        self._run = run
        self.asked = request
        self._say_line = say
        self._repeated = False
        if "SLURM_JOB_ID" in os.environ:
            from procession.system.origin import is_in_slurm_job

            self._repeated = is_in_slurm_job(os.environ)
        self._known: set[int] = set()  # those that are taken: not what was ignored (as by nohup)
        self._heard: dict[int, set[str]] = {}  # signal -> the processes that got it as one event
        self._own: list[int] = []  # signals to this process that end the run
        self._stopping = False  # more than a notice has come
        self.prompting = False  # Ctrl-C is for the prompt of a debugger
        self._over: float | None = None  # since when only the exit of this process is left
        self._patience = threading.Timer(PATIENCE, self._explain)
        self._patience.daemon = True
        self._failing: threading.Timer | None = None

    @contextmanager
    def taken(self) -> Generator[None]:
        """Take signals of this process while the block runs. What was ignored (nohup) stays so.

        A signal after the end of all ranks cuts off output that is still to be shown. After the
        block handlers are put back. But where a signal has come and only the exit of this process
        is left, further ones (somebody pressed Ctrl-C five times) do not keep it from ending in
        order; only if that takes longer than `PATIENCE`, they end it at once.
        """
        wanted = {*self.asked.signals, *self.asked.notices, *self.asked.forward}
        self._known = {n for n in wanted if signal.getsignal(n) is not signal.SIG_IGN}
        before = {number: signal.signal(number, self._got) for number in self._known}
        try:
            yield
        finally:
            self._patience.cancel()
            if self._failing is not None:
                self._failing.cancel()
            if self.received and process.leaves_surely:
                self._over = time.monotonic()
            else:
                for number, handler in before.items():
                    signal.signal(number, handler)

    def _got(self, number: int, _: object) -> None:
        if self.prompting and number == signal.SIGINT:
            return
        if self._over is None:
            self._obey_signal(number, HERE)
        elif time.monotonic() > self._over + PATIENCE:
            os._exit(128 + self.received[0])

    def hear_event(self, event: Event) -> None:
        """Take an event of the run: where a failure does not end it soon, that is said."""
        if event.kind == "stopping" and not self.received:
            if self._failing is not None:
                self._failing.cancel()
            self._failing = threading.Timer(LONG, self._explain_failure)
            self._failing.daemon = True
            with suppress(RuntimeError):  # no thread can be started: nothing is explained
                self._failing.start()

    def _explain_failure(self) -> None:
        cause = None if self._run.state.final or self.received else self._run.look().get("cause")
        if cause:
            self._say(f"{cause}: waiting for the other ranks to end; Ctrl-C twice kills them")

    def node_got(self, number: int, who: str, again: bool = False) -> None:
        """Take a signal that a node process got. who: which one, with the name of its machine.

        again: a person there ends the run for the second time.
        """
        name = signal.Signals(number).name
        if number not in self._known and number != signal.SIGTERM:
            if not self._is_copy(number, who):
                self._say(f"{who} got {name}, which does nothing here: see --forward, --preempt")
            return
        if self._obey_signal(number, who, again):
            self._say(f"{who} got {name}")

    def _obey_signal(self, number: int, who: str, again: bool = False) -> bool:
        """Obey a signal; gives whether it was new."""
        copy = self._is_copy(number, who)
        if number in self.asked.forward:
            if not copy:
                self._run.signal_all(number)
            return not copy
        if number in self.asked.notices:
            if not self.received:
                self.received.append(number)
                self._preempt(number)
                return True
            person = who == HERE and not copy and not self._repeated
            if not person or number not in self.asked.signals or len(self.asked.notices) > 1:
                return False  # announces the same end again
        return self._stop(number, who, again)

    def _is_copy(self, number: int, who: str) -> bool:
        heard = self._heard.setdefault(number, set())
        if who in heard:  # each process hears of an event once: this is another one
            heard.clear()
        copy = bool(heard)
        heard.add(who)
        return copy

    def _preempt(self, number: int) -> None:
        """Let the run end within the time that is left."""
        left = seconds_left(self.asked.notices[number], number)
        notice, grace = divided(left, self._run.spec.stop.grace)
        self._run.stop(notice=notice, grace=grace, wait=False, stacks=True)
        self._run.signal_all(number, only_caught=True)
        name = signal.Signals(number).name
        self._say(f"{name}: {notice:.0f} s for ranks to end by themselves, then SIGTERM")

    def _stop(self, number: int, who: str, again: bool) -> bool:
        if who == HERE:
            copy = self._repeated and number == signal.SIGTERM and number in self._own
            if not copy:
                self._own.append(number)
            again = len(self._own) > 1
        if again and (self._stopping or who == HERE):
            self.received.append(number)
            self._run.kill(wait=False)
            return True
        if self._stopping:
            return False
        self._stopping = True
        self.received.append(number)
        self._run.stop(signal=number, notice=0.0, wait=False, stacks=True)
        with suppress(RuntimeError):  # no thread can be started: nothing is explained
            self._patience.start()
        return True

    def _explain(self) -> None:
        if self._run.state.final:
            return
        name = signal.Signals(self.received[-1]).name
        how = "once more kills them"
        if not self._own:
            how = "SIGINT to this command, twice, kills them"
        elif self._repeated and self._own == [signal.SIGTERM]:
            how = "SIGINT kills them"
        self._say(f"{name}: waiting for ranks to end; {how}")

    def _say(self, text: str) -> None:
        self._say_line(f"procession: {text} [P412]")
