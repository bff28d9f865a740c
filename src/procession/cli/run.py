"""Runs a group on this machine, or a job on an engine; its end becomes an exit code."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import partial

from procession.cli.debugger import Debugger
from procession.cli.request import Request
from procession.cli.say import LOST, refuse, say_line, say_note
from procession.cli.signals import RunSignals, handled, suspended, woken_by_signals
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
    from procession.cli.location import EngineRequest
    from procession.output.console import Console

READ_WITHIN = 2.0  # seconds for Hydra to read the report
HASTE = 2.0  # seconds for the last messages, when a signal has come
EVERY = 60.0  # seconds between two lines of status, where --live finds no terminal
END = {Phase.SUCCEEDED.name.lower(), Phase.FAILED.name.lower(), Phase.STOPPED.name.lower()}


def run_group(
    prog: str, request: Request, waiter: Waiter | None
) -> tuple[int, dict[str, Any] | None]:
    """Run a group; gives the exit code, and the result for --json, None without a group.

    waiter: the process that waits until a detached run has started.
    """
    if request.engine is not None:
        return _run_job(prog, request, request.engine)
    spec, output, where = request.spec, None, request.settings.where
    try:
        if request.logs_specs:
            from procession.cli.logs_specs import plan_output

            spec, output = plan_output(spec, request.logs_specs, where("logs_specs"))
        control = os.environ.get(CONTROL) != "0"
        with waiter.settled(spec) if waiter else nullcontext(output) as output:
            group = local_group(spec, output, control=control)
    except SpecError as e:
        refuse(prog, str(e))
    except GroupFailed as e:
        say_line(str(e))
        return e.exit_code, None
    except OSError as e:
        said = where("log_dir" if request.settings.said("log_dir") else "detach")
        of_logs = f"{said} {spec.logs.dir!r}: " if spec.logs.dir else ""
        refuse(prog, f"{of_logs}cannot prepare the run: {e} [P305]")
    person = sys.stderr is not None and sys.stderr.isatty()
    hints = _hints(request, group) if (person or request.verbose) and not request.json else ()
    for note in (*group.notes, *hints):
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
    shown = request.live or request.status is not None
    # Not into a progress bar.
    say = group.say if person or shown else partial(say_line, patience=0.0)
    watching = _shown(group, request) if shown else suspended(group)
    code = 1
    try:
        code = conduct(group, RunSignals(group, request, say), watching)
    finally:
        if waiter is not None:
            waiter.end(code, group)
    if code and spec.node.number is not None and "PMI_FD" in os.environ:
        abort_others(os.environ, code)
    return code, result_of(group, code) if request.json else None


def abort_others(env: Mapping[str, str], code: int) -> None:
    """Have Hydra end the other processes of its job: one rank's failure ends all of them.

    By itself it does so only for a rank that has called MPI_Init. It then drops what it has not
    read yet of our output, so that is waited for. code: what mpiexec exits with.
    """
    if "MPI_LOCALNRANKS" not in env:
        return
    until = time.monotonic() + READ_WITHIN
    while any(map(_unread, (1, 2))) and time.monotonic() < until:
        time.sleep(0.005)
    with suppress(OSError, ValueError, OverflowError):
        os.write(int(env["PMI_FD"]), b"cmd=abort exitcode=%d\n" % code)


def _unread(fd: int) -> bool:
    """Tell whether a pipe has something that its reader has not taken yet."""
    import stat
    from fcntl import ioctl
    from termios import FIONREAD

    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode) and any(ioctl(fd, FIONREAD, bytes(4)))
    except OSError:
        return False


def _run_job(prog: str, request: Request, on: EngineRequest) -> tuple[int, dict[str, Any] | None]:
    """Run what was asked for on an engine; gives what `run_group` gives."""
    from procession.api.jobs import group_on
    from procession.engines.contract import choose
    from procession.prepare.work import Share, divide

    spec = request.spec

    def make() -> Group:
        chosen = choose(on.name, Share(spec, on.devices), on.nodes, on.spares, on.options)
        return group_on(
            divide(chosen.share, chosen.nodes),
            chosen.engine,
            lease=on.lease,
            link_encryption=on.link_encryption,
            control=os.environ.get(CONTROL) != "0",
        )

    job = made(prog, make)
    code = conduct_job(job, RunSignals(job, request, job.say), None)
    return code, result_of(job, code) if request.json else None


def made(prog: str, make: Callable[[], Group]) -> Group:
    """Make a job, or refuse the command line."""
    from procession.engines.contract import EngineError

    try:
        return make()
    except (SpecError, EngineError) as e:
        refuse(prog, str(e))
    except OSError as e:
        refuse(prog, f"cannot prepare the run: {e} [P305]")


def conduct_job(job: Group, signals: RunSignals, status: float | None) -> int:
    """Drive a job to its end, and say how it ended; gives the exit code. status: see `Request`."""
    if job.run_dir:
        job.say(f"procession: logs in {job.run_dir}")
    else:
        job.stop_when_unread()
    return conduct(job, signals, _told(job, status))


def _hints(request: Request, group: Group) -> Iterator[str]:
    """Say what a person is told once, or with --verbose always."""
    spec, again = request.spec, request.verbose
    threads = _threads(spec, group.placed)
    if threads and (again or _is_new("threads")):
        yield threads
    if group.plan is not None and spec.preload == "auto":
        from procession.preload.advice import advice

        yield from filter(None, (advice(group.plan, f"{spec.cwd} {spec.name}", again=again),))


def _say_restart(event: Event) -> None:
    if event.kind in ("backoff", "restarting"):
        say_note(event.detail, 0.0)


def _is_new(what: str) -> bool:
    """Tell whether this version tells this user something for the first time."""
    from procession.system.directories import read_cached, write_cached
    from procession.values.version import __version__

    version = __version__.encode()
    if read_cached("told", what) == version:
        return False
    write_cached("told", what, version)
    return True


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
    run.subscribe(signals.hear_event)
    debugger = Debugger(run, signals, say_line)
    code = 1
    try:
        with watching, woken_by_signals(run), signals.taken():
            run.drive(concludes=False)
            debugger.close()
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
    if received:
        number = signal.Signals(received[0])
        run.stopper = f"{number.name} to its launcher (pid {os.getpid()})"
        if stopped:
            return _stopped(run, f"by {_called(number)}"), 128 + number
        done = "had done its work before" if failed is None else "had failed before"
        how = f"procession: {name} {done} {number.name} [P412]"
        return (how, 128 + number) if failed is None else (f"{failed}\n{how}", failed.exit_code)
    if failed is not None:
        return str(failed), failed.exit_code
    if stopped and run.stopped_by:
        by = signal.Signals(run.stopped_by)
        where = "its debugger" if " from its debugger (" in run.who_stopped else "another terminal"
        return _stopped(run, f"from {where} ({by.name})"), 128 + by
    if stopped and run.unread:
        unread = "the reader of stdout has exited"
        run.stopper = f"its launcher: {unread}"
        return f"procession: {unread}; the group was stopped [P306]", 128 + signal.SIGPIPE
    return "", 0


def _called(number: signal.Signals) -> str:
    """Name a signal as people know it."""
    terminal = number is signal.SIGINT and any(map(os.isatty, range(3)))
    return "Ctrl-C" if terminal else number.name


def _stopped(run: Group, how: str) -> str:
    """Say that a run was stopped, and where its ranks were."""
    from procession.explain.report import stacks_of, unshown
    from procession.values.figures import duration

    after = duration(time.monotonic() - run.began)
    echoed = "\n" if how == "by Ctrl-C" else ""  # as ^C
    said = f"{echoed}procession: {run.spec.name} was stopped {how} after {after} [P412]"
    end = run.end
    return "\n".join([said, *(stacks_of(end) + unshown(end, end.first) if end else [])])


# -- what is shown while it runs


@contextmanager
def _shown(group: Group, request: Request) -> Generator[None]:
    """Show a group of this machine while the block runs it."""
    from procession.output.console import Console

    why = _why_no_terminal() if request.live else ""
    every = request.status
    if why:
        every = every or EVERY
        say_note(f"no live view: {why}; a line of status comes every {every:g} s [P413]")
    viewed = request.live and not why
    with closing(Console(sys.stdout)) if viewed else nullcontext() as console:
        group.resources.streams.lead_through(console)
        with (
            _told(group, every),
            _viewed(group, console) if console is not None else suspended(group),
        ):
            yield


def _told(group: Group, every: float | None) -> AbstractContextManager[None]:
    """Say how a group is while the block runs it. every: seconds between two lines, or None."""
    if every is None:
        return nullcontext()
    from procession.view.live import status_lines

    return status_lines(group.look, group.say, every)


def _why_no_terminal() -> str:
    """Say why there is no terminal that shows both streams, "" if there is one."""
    for name, stream in (("output", sys.stdout), ("error", sys.stderr)):
        if stream is None or not stream.isatty():
            return f"the standard {name} is no terminal"
    if os.environ.get("TERM", "dumb") == "dumb":
        return "the terminal cannot move its cursor (TERM=dumb)"
    return ""


@contextmanager
def _viewed(group: Group, console: Console) -> Generator[None]:
    """Show a group on a terminal while the block runs; in the main thread, for its signals.

    console: all that is written to the terminal meanwhile goes through it.
    """
    from procession.view.live import View

    def crashed(e: Exception) -> None:
        what = (str(e).splitlines() or [""])[0]
        failed = f"the live view failed and is gone ({type(e).__name__}: {what})"
        group.say(f"procession: {failed}; the group continues [P413]")

    view = View(group.look, console, on_crash=crashed)

    def stop(*_: object) -> None:
        view.hide()
        group.driver.request_suspension()

    def hear(event: Event) -> None:
        if event.rank is None and event.kind in END:
            view.remember()

    group.hear(hear)
    handlers: dict[int, Callable[..., None]] = {
        signal.SIGWINCH: lambda *_: view.wake(),
        signal.SIGTSTP: stop,
        signal.SIGCONT: lambda *_: view.unhide(),
    }
    with handled(handlers):
        try:
            view.start()
            yield
        finally:
            view.close()
