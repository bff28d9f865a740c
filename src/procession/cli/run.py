"""Runs a group on this machine, as the command line asks for it; its end becomes an exit code."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from procession.cli.request import OnEvent, Request
from procession.cli.say import LOST, refuse, say_line, say_note
from procession.cli.signals import RunSignals, suspended, woken_by_signals
from procession.group.group import CONTROL, Group
from procession.group.making import local_group
from procession.prepare.placing import THREADS, Placed
from procession.rules.tables import Phase
from procession.values.errors import GroupFailed, SpecError
from procession.values.events import Event
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.cli.detach import Waiter

HASTE = 2.0  # seconds for the last messages, when a signal has come


def run_group(
    prog: str, request: Request, on_event: OnEvent | None = None, waiter: Waiter | None = None
) -> tuple[int, dict[str, Any] | None]:
    """Run a group; gives the exit code, and the result for --json, None without a group.

    waiter: the process that waits until a detached run has started.
    """
    spec, output, where = request.spec, None, request.settings.where
    try:
        if request.logs_specs:
            from procession.cli.logs_specs import plan_output

            spec, output = plan_output(spec, request.logs_specs, where("logs_specs"))
        control = os.environ.get(CONTROL) != "0"
        with waiter.settled(spec) if waiter else nullcontext(output) as output:
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
    for note in group.notes:
        say_note(note)
    in_files = group.resources.streams.in_files  # then nothing is lost if nobody reads the output
    if group.run_dir and output is None and waiter is None:
        what = "logs" if in_files else "no logs (see -t, -r), but events and report,"
        say_line(f"procession: {what} in {group.run_dir}")
    if not in_files:
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
    return code, result_of(group, code) if request.json else None


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
    code = 1
    try:
        with watching, woken_by_signals(run), signals.taken():
            run.drive(concludes=False)
        code = _say_end(run, signals.received) or (LOST if run.losses else 0)
    finally:
        run.conclude(code)
        for each in run.losses:
            say_note(each)
    return code or (LOST if run.losses else 0)


def result_of(run: Group, code: int) -> dict[str, Any]:
    """Say how a run ended as --json prints it."""
    from procession.explain.summary import summary

    return summary(run.spec, run.state, run.end, code, run.began)


def _say_end(run: Group, received: list[int]) -> int:
    """Say how a run ended, unless it succeeded; gives the exit code."""
    failed: GroupFailed | None = None
    try:
        run.result()
    except GroupFailed as e:
        failed = e
    said, code = ending(run, failed, received)
    if said:
        say_line(said, HASTE if received else None)
    return code


def ending(run: Group, failed: GroupFailed | None, received: list[int]) -> tuple[str, int]:
    """Say how a run ended, "" if it succeeded; gives the exit code, too.

    received: the signals that this command has obeyed.
    """
    name, stopped = run.spec.name, run.state is Phase.STOPPED
    if failed is not None:
        return str(failed), failed.exit_code
    if received:
        number = signal.Signals(received[0])
        run.stopper = f"{number.name} to its launcher (pid {os.getpid()})"
        how = "was stopped by" if stopped else "had done its work before"
        return f"procession: {name} {how} {number.name} [P412]", 128 + number
    if stopped and run.stopped_by:
        by = signal.Signals(run.stopped_by)
        said = f"procession: {name} was stopped from another terminal ({by.name}) [P412]"
        return said, 128 + by
    if stopped and run.unread:
        unread = "nobody reads the standard output any more"
        run.stopper = f"its launcher: {unread}"
        return f"procession: {unread}; the group was stopped [P306]", 128 + signal.SIGPIPE
    return "", 0
