"""What signals to this command do to the group on this machine."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import MappingProxyType

from procession.cli import leaving
from procession.cli.say import say_line
from procession.group.group import Group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.group.handle import Handle

    Handler = Callable[[int, Any], object]

PATIENCE = 1.0  # seconds after a signal until it is said that ranks are still being ended
_kept: list[object] = []  # to the end of the process: what is forgotten would be put back
NO_NOTICES: Mapping[int, float] = MappingProxyType({})


@contextmanager
def handled(handlers: Mapping[int, Handler], *, ignored: bool = True) -> Generator[None]:
    """Handle signals while the block runs, in the main thread; what did it before is put back.

    ignored: also those that are ignored now (as by nohup).
    """
    before: dict[int, Callable[..., object] | int | None] = {}
    for number, handler in handlers.items():
        if ignored or signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def suspended(group: Group) -> Generator[None]:
    """Let Ctrl-Z stop the ranks, too, which have no terminal; `fg` continues them."""

    def suspend(_number: int, _frame: object) -> None:
        group.suspend()

    free = signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
    with handled({signal.SIGTSTP: suspend} if free else {}):
        yield


@contextmanager
def readable_by_signals() -> Generator[int]:
    """Give a descriptor that can be read from when a signal has come, while the block runs.

    For the main thread. Raises OSError if no descriptor is left.
    """
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield read_end
    finally:
        signal.set_wakeup_fd(before)  # before the descriptor's number is free
        os.close(read_end)
        os.close(write_end)


@contextmanager
def woken_by_signals(run: Handle) -> Generator[None]:
    """Let every signal wake the loop of a run at once; in the main thread, which drives it.

    Otherwise a signal just before the loop sleeps would be handled only at the next event.
    """
    with ExitStack() as open_:
        try:
            fd = open_.enter_context(readable_by_signals())
        except OSError:
            pass  # no descriptor is left: the loop is woken by almost all signals anyway
        else:
            run.watch(fd, lambda: os.read(fd, 4096))
        yield


def forwarded(run: Handle, signals: Iterable[int]) -> AbstractContextManager[None]:
    """Let every rank get these signals while the block runs."""
    return handled(dict.fromkeys(signals, lambda number, _: run.signal_all(number)))


@contextmanager
def stopped_by_signals(
    run: Handle,
    signals: Iterable[int],
    notices: Mapping[int, float] = NO_NOTICES,
    *,
    told: bool = True,
) -> Generator[list[int]]:
    """Let the first of these signals stop the run, and a further one kill it.

    notices: signals that announce the end, with the seconds that are left then: ranks can see it by
    `procession.stopping()`, and those with a handler for the signal get it. A notice does not kill.
    Kubernetes sends its SIGTERM once (Slurm several times): a second one comes from a person, and
    is like any other of `signals`. told: say so if ranks take long to end.

    A signal after the end of all ranks cuts off output that is still to be shown. Gives the list of
    signals that came. A signal that was ignored (nohup) stays ignored. After the block, where only
    the exit of this process is left, further ones (somebody pressed Ctrl-C five times) do not keep
    it from ending in order; only if that takes longer than `PATIENCE`, they end it at once.
    """
    received: list[int] = []
    stopping = False
    over: float | None = None

    def explain() -> None:
        if not run.state.final:
            name = signal.Signals(received[-1]).name
            say_line(f"procession: {name}: waiting for ranks to end; once more kills them", 0.0)

    patience = threading.Timer(PATIENCE, explain)
    patience.daemon = True

    def take(number: int, _: object) -> None:
        nonlocal stopping
        if over is not None:
            if time.monotonic() > over + PATIENCE:
                os._exit(128 + received[0])
            return
        received.append(number)
        if number in notices and len(received) == 1:
            preempt(run, number, notices[number])
        elif number in notices and (number not in signals or len(notices) > 1):
            pass  # announces the same end again
        elif stopping:
            run.kill(wait=False)
        else:
            stopping = True
            run.stop(signal=number, notice=0.0, wait=False)
            if told:
                patience.start()

    watching = handled(dict.fromkeys({*signals, *notices}, take), ignored=False)
    watching.__enter__()
    try:
        yield received
    finally:
        patience.cancel()
        if received and leaving.surely:
            over = time.monotonic()
            _kept.append(watching)
        else:
            watching.__exit__(None, None, None)


def preempt(run: Handle, number: int, said: float) -> None:
    """Let a run end within the time that is left. said: seconds, by the command line."""
    from procession.cli.preemption import divided, seconds_left

    notice, grace = divided(seconds_left(said, number), run.spec.stop.grace)
    run.stop(notice=notice, grace=grace, wait=False)
    run.signal_all(number, only_caught=True)
    name = signal.Signals(number).name
    say_line(
        f"procession: {name}: {notice:.0f} s for ranks to end by themselves, then SIGTERM", 0.0
    )
