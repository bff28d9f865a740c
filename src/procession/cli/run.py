"""`procession run`: a command line becomes a group, and its end an exit code."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType

from procession.cli.asked import RUN, Asked, read_command_line
from procession.cli.options import TORCHRUN_PROG
from procession.cli.say import refuse, say
from procession.errors import GroupFailed, SpecError
from procession.events import Event
from procession.group import CONTROL, Group
from procession.lifecycle import Phase
from procession.policy import Route
from procession.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.engines.job import Job
    from procession.events import Event

    OnEvent = Callable[[Event], object]

NO_OTEL = "OpenTelemetry is missing: pip install 'procession[otel]'"
PATIENCE = 1.0  # seconds after a signal until it is said that ranks are still being ended
NO_NOTICES: Mapping[int, float] = MappingProxyType({})
HASTE = 2.0  # seconds for last words, when a signal has come


def main(words: list[str], *, torchrun: bool = False) -> int:
    """Run the group that the words describe; returns the exit code.

    torchrun: they are torchrun's words.
    """
    prog = TORCHRUN_PROG if torchrun else RUN
    try:
        asked = read_command_line(words, torchrun=torchrun)
        if asked.dry:
            from procession.cli.dry_run import describe

            if asked.engine is not None:
                from procession.cli.engine import first_node

                say(describe(first_node(asked)), sys.stdout)
                return 0
            say(describe(asked.spec), sys.stdout)
            return 0
    except SpecError as e:
        refuse(prog, str(e))
    if asked.detach and asked.told is None and asked.engine is None:
        from procession.cli.detach import detach

        return detach(words, torchrun=torchrun)
    for note in asked.notes:
        _say(f"procession: {note}")
    if not asked.otel:
        return _run_and_tell(prog, asked, words, None)
    try:
        try:
            from procession.telemetry import set_up
        except ImportError:
            raise SpecError(NO_OTEL) from None
        trace, finish = set_up()
    except SpecError as e:
        refuse(prog, f"--otel: {e}")
    try:
        return _run_and_tell(prog, asked, words, trace)
    finally:
        finish()


def _run_and_tell(prog: str, asked: Asked, words: list[str], on_event: OnEvent | None) -> int:
    if asked.engine is not None:
        from procession.cli.engine import run_on_engine

        return run_on_engine(prog, asked, words, on_event)
    if not asked.json:
        return _run(prog, asked, on_event)[0]
    from procession.cli.told import console_on_stderr, tell

    began = time.monotonic()
    with console_on_stderr():
        code, group = _run(prog, asked, on_event)
    tell(asked.spec, group, code, began)
    return code


def _run(prog: str, asked: Asked, on_event: OnEvent | None) -> tuple[int, Group | None]:
    """Run a group; gives the exit code, and the group if there was one."""
    spec = asked.spec
    say_threads = None
    if spec.nproc > 1 and not asked.json:
        # Not later, when there may be no descriptor left to import with.
        from procession.cli.place import say_threads
    try:
        spec, output = asked.plan()
        control = os.environ.get(CONTROL) != "0"
        if asked.told is None:
            group = Group(spec, output, on_event=on_event, control=control)
        else:
            with asked.told.settled(spec) as output:
                group = Group(spec, output, on_event=on_event, control=control)
    except SpecError as e:
        refuse(prog, str(e))
    except GroupFailed as e:
        _say(str(e))
        return e.exit_code, None
    except OSError as e:
        where = f"--log-dir {spec.logs.dir!r}: " if spec.logs.dir else ""
        refuse(prog, f"{where}cannot prepare the run: {e}")
    threads = say_threads(spec, group.placed) if say_threads is not None else ""
    for note in filter(None, (threads, *group.notes)):
        _say(f"procession: {note}")
    if group.run_dir and output is None and asked.told is None:
        _say(f"procession: logs in {group.run_dir}")
    group.drain_patiently()
    if not _keeps_output(spec):
        group.stop_when_unread()
    group.subscribe(_say_restart)
    if asked.told is not None:
        asked.told.watch(group)
    group.conclude_later()
    code = 1
    try:
        with ExitStack() as watching:
            viewed = False
            if asked.live or asked.status is not None:
                from procession.cli.live import shown

                viewed = watching.enter_context(shown(group, asked, _say))
            with (
                woken_by_signals(group),
                forwarded(group, asked.forward),
                stopped_by_signals(
                    group, asked.signals, asked.notices, told=not viewed
                ) as received,
            ):
                group.drive()
        code = exit_code(group, received)
    finally:
        group.conclude(code)
        if asked.told is not None:
            asked.told.end(code, group)
    return code, group


def _keeps_output(spec: Spec) -> bool:
    """Whether files have what ranks write, so that their work is not lost on an absent reader."""
    routes = spec.logs.route(spec.nproc)
    return any(route in (Route.FILE, Route.TEE) for pair in routes for route in pair)


def exit_code(group: Group | Job, received: list[int]) -> int:
    """Say how the group ended, if that is not as it should; gives the exit code for it."""
    patience = HASTE if received else None
    try:
        result = group.result()
    except GroupFailed as e:
        _say(str(e), patience)
        return e.exit_code
    stopped = result.state is Phase.STOPPED
    if received:
        how = "was stopped by" if stopped else "had done its work before"
        _say(f"procession: {group.spec.name} {how} {signal.Signals(received[0]).name}", patience)
        return 128 + received[0]
    if stopped and group.stopped_by:
        name = signal.Signals(group.stopped_by).name
        _say(f"procession: {group.spec.name} was stopped from another terminal ({name})")
        return 128 + group.stopped_by
    if stopped and group.unread:
        _say("procession: nobody reads the standard output any more; the group was stopped")
        return 128 + signal.SIGPIPE
    return 0


def _say_restart(event: Event) -> None:
    if event.kind in ("backoff", "restarting"):
        _say(f"procession: {event.detail}", 0.0)


@contextmanager
def woken_by_signals(group: Group | Job) -> Generator[None]:
    """Let every signal wake the loop at once, where the main thread, this one, drives it.

    Without it, one that comes just before the loop sleeps is handled when something else comes.
    """
    try:
        read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # no descriptor is left: the loop is woken by almost all signals anyway
        yield
        return

    def clear() -> None:
        os.read(read_end, 4096)

    group.watch(read_end, clear)
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)  # not before the loop is closed, and before a number is free
        os.close(read_end)
        os.close(write_end)


@contextmanager
def forwarded(group: Group | Job, signals: Iterable[int]) -> Generator[None]:
    """Let every rank get these signals; handlers are put back."""

    def take(number: int, _: object) -> None:
        group.signal_all(number)

    before = {number: signal.signal(number, take) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopped_by_signals(
    group: Group | Job,
    signals: Iterable[int],
    notices: Mapping[int, float] = NO_NOTICES,
    *,
    told: bool = True,
) -> Generator[list[int]]:
    """Let the first of these signals stop the group, a further one kill it; handlers are put back.

    notices: signals that tell of the end, with the seconds that are left then: ranks are told, and
    those that have a handler for it get the signal, too. They do not kill. told: say so where that
    takes its time.

    A signal that comes when all ranks have ended cuts off what is left to be shown. Gives the list
    of signals that came. A signal that was ignored (nohup) stays ignored.
    """
    received: list[int] = []

    def explain() -> None:
        if not group.state.final:
            name = signal.Signals(received[-1]).name
            _say(f"procession: {name}: waiting for ranks to end; once more kills them", 0.0)

    patience = threading.Timer(PATIENCE, explain)
    patience.daemon = True

    def take(number: int, _: object) -> None:
        stopping = any(n not in notices for n in received)
        received.append(number)
        if number in notices:
            if len(received) == 1:
                preempt(group, number, notices[number])
        elif stopping:
            group.kill(wait=False)
        else:
            group.stop(signal=number, notice=0.0, wait=False)
            if told:
                patience.start()

    before: dict[int, Callable[..., object] | int | None] = {}
    for number in {*signals, *notices}:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, take)
    try:
        yield received
    finally:
        patience.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def preempt(group: Group | Job, number: int, said: float) -> None:
    """Let a group end within the time that is left; `said`: seconds, by the command line."""
    from procession.cli.preemption import divided, seconds_left

    notice, grace = divided(seconds_left(said, number), group.spec.stop.grace)
    group.stop(notice=notice, grace=grace, wait=False)
    group.signal_all(number, only_caught=True)
    name = signal.Signals(number).name
    _say(f"procession: {name}: {notice:.0f} s for ranks to end by themselves, then SIGTERM", 0.0)


def _say(text: str, patience: float | None = None) -> None:
    say(text.rstrip("\n") + "\n", sys.stderr, patience)
