"""Runs a group on this machine, as the command line asks for it; its end becomes an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from procession.cli.request import Request
from procession.cli.say import LOST, refuse, say_line, say_note
from procession.cli.signals import RunSignals, suspended, woken_by_signals
from procession.group.group import Group, local_group
from procession.group.handle import CONTROL
from procession.prepare.placing import THREADS, Placed
from procession.rules.tables import Phase
from procession.values.errors import GroupFailed, SpecError
from procession.values.events import Event
from procession.values.policy import Route
from procession.values.program import Script
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.cli.detach import Waiter
    from procession.preload.plan import Plan

    OnEvent = Callable[[Event], object]

HASTE = 2.0  # seconds for the last messages, when a signal has come


def run_group(
    prog: str, request: Request, on_event: OnEvent | None = None, waiter: Waiter | None = None
) -> tuple[int, Group | None]:
    """Run a group; gives the exit code, and the group if there was one.

    waiter: the process that waits until a detached run has started.
    """
    spec, output, where = request.spec, None, request.settings.where
    try:
        if request.logs_specs:
            from procession.cli.logs_specs import plan_output

            spec, output = plan_output(
                spec, request.logs_specs, request.settings.where("logs_specs")
            )
        control = os.environ.get(CONTROL) != "0"
        if waiter is None:
            group = local_group(spec, output, on_event=on_event, control=control)
        else:
            with waiter.settled(spec) as output:
                group = local_group(spec, output, on_event=on_event, control=control)
    except SpecError as e:
        refuse(prog, str(e))
    except GroupFailed as e:
        say_line(str(e))
        return e.exit_code, None
    except OSError as e:
        said = where("log_dir" if request.settings.said("log_dir") else "detach")
        of_logs = f"{said} {spec.logs.dir!r}: " if spec.logs.dir else ""
        refuse(prog, f"{of_logs}cannot prepare the run: {e} [P305]")
    if threads := _threads(spec, group.placed) if not request.json else "":
        say_line(f"procession: {threads}")
    for note in (*group.notes, *([] if request.json else _advice(spec, group.plan))):
        say_note(note)
    if group.run_dir and output is None and waiter is None:
        what = "logs" if _keeps_output(spec) else "no logs (see -t, -r), but events and report,"
        say_line(f"procession: {what} in {group.run_dir}")
    if not _keeps_output(spec):
        group.stop_when_unread()
    group.subscribe(_say_restart)
    if waiter is not None:
        waiter.watch(group)
    say, watching = partial(say_line, patience=0.0), suspended(group)
    if request.live or request.status is not None:
        from procession.cli.live import shown

        say, watching = group.say, shown(group, request)
    code = 1
    try:
        code = conduct(group, RunSignals(group, request, say), watching)
    finally:
        if waiter is not None:
            waiter.end(code, group)
    if code and spec.node.number is not None and "PMI_FD" in os.environ:
        from procession.cli.starters import abort_others

        abort_others(os.environ, code)
    return code, group


def _advice(spec: Spec, plan: Plan | None) -> list[str]:
    """Say on a terminal, once for each script, which of its imports could be made once."""
    if plan is None or spec.preload != "auto" or not isinstance(spec.program, Script):
        return []
    if sys.stderr is None or not sys.stderr.isatty():
        return []
    from procession.preload.advice import advice

    said = advice(plan, os.path.join(spec.cwd, spec.program.path))
    return [said] if said else []


def _keeps_output(spec: Spec) -> bool:
    """Tell whether files keep what ranks write: then nothing is lost if nobody reads the output."""
    routes = spec.logs.route(spec.nproc)
    return any(route in (Route.FILE, Route.TEE) for pair in routes for route in pair)


def _say_restart(event: Event) -> None:
    if event.kind in ("backoff", "restarting"):
        say_note(event.detail, 0.0)


def _threads(spec: Spec, placed: Placed) -> str:
    """Say what OMP_NUM_THREADS is set to; "" if it is not set here, or the user has set it."""
    if spec.nproc < 2 or THREADS in os.environ or all(THREADS in env for env in spec.env):
        return ""
    least, most = min(placed.threads), max(placed.threads)
    count = f"{least}" if least == most else f"{least} to {most}"
    of = "the CPUs of each" if placed.cpus else f"{placed.cores} cores"
    return f"{THREADS}={count} for each of {spec.nproc} ranks ({of}; set it to choose) [P401]"


def conduct(run: Group, signals: RunSignals, watching: AbstractContextManager[object]) -> int:
    """Drive a run to its end, and say how it ended; gives the exit code.

    watching: what is there while it runs.
    """
    run.driver.drain_patiently()
    run.driver.on_signal(signals.node_got)
    run.conclude_later()
    code = 1
    try:
        with watching, woken_by_signals(run), signals.taken():
            run.drive()
        code = _exit_code(run, signals.received)
    finally:
        run.conclude(code)
        for each in run.losses:
            say_note(each)
    return code or (LOST if run.losses else 0)


def _exit_code(run: Group, received: list[int]) -> int:
    """Say how the run ended, unless it succeeded; gives the exit code."""
    patience = HASTE if received else None
    try:
        result = run.result()
    except GroupFailed as e:
        say_line(str(e), patience)
        return e.exit_code
    stopped = result.state is Phase.STOPPED
    if received:
        run.stopper = f"{signal.Signals(received[0]).name} to its launcher (pid {os.getpid()})"
        say_line(end_by_signal(run.spec.name, received[0], stopped=stopped), patience)
        return 128 + received[0]
    if stopped and run.stopped_by:
        name = signal.Signals(run.stopped_by).name
        say_note(f"{run.spec.name} was stopped from another terminal ({name}) [P412]")
        return 128 + run.stopped_by
    if stopped and run.unread:
        run.stopper = "its launcher: nobody reads the standard output any more"
        say_note("nobody reads the standard output any more; the group was stopped [P306]")
        return 128 + signal.SIGPIPE
    return LOST if run.losses else 0


def end_by_signal(name: str, number: int, *, stopped: bool) -> str:
    """Say how a run ended that got a signal."""
    how = "was stopped by" if stopped else "had done its work before"
    return f"procession: {name} {how} {signal.Signals(number).name} [P412]"
