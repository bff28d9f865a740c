"""From a prepared process to the end of a rank's program.

Theory of operation. `run` is our only frame below the user's program. Whatever the program does,
its outcome is on its channel before the interpreter begins to exit, since exit handlers and
threads may take long or hang. Then the exception goes on to the interpreter, which exits as it
would without us: the exit code, `SystemExit`'s message, death by SIGINT after KeyboardInterrupt,
exit handlers, the join of threads. A fork of the agent does all this in `ending`, if possible,
since its interpreter would take apart what it shares with the other ranks.

A rank that was forked from the launcher itself (start method `fork`) has the launcher's frames and
exit handlers, and must not run these: it joins its threads, flushes its streams and calls _exit.
"""

from __future__ import annotations

import os
import signal
import sys

from procession.worker import (
    NEEDED,
    breakpoints,
    ending,
    outcome,
    program,
    shown,
    stackfile,
    streams,
)

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Job = dict[str, Any]


# Signals that ask a process to end.
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
          signal.SIGUSR2, signal.SIGALRM, signal.SIGXCPU)  # fmt: skip


def run(job: Job) -> None:
    """Run the job's program; raises what the program raises.

    `job["program"]` is a dict: `kind` "script" (`path`, `args`), "module" (`name`, `args`),
    "function" (`sys_path`, `sys_argv`, `authkey`; function and arguments are in the memory files
    `common` and `own`) or "live" (the function lies in memory).
    """
    board = sys.modules.get("procession.worker.board")
    if board is not None:
        board.renew()
    channel = outcome.OutcomeChannel(job["fds"]["result"], job.get("error_file", ""))
    stackfile.offer()
    breakpoints.offer()
    kind: str = job["program"]["kind"]
    is_function = kind in ("function", "live")
    try:
        shared = sys.modules.get("procession.worker.shared")
        if shared is not None:
            shared.raise_failure()
        if breakpoints.PORT in os.environ:
            first = int(os.environ.pop(breakpoints.PORT))
            breakpoints.listen(first + int(os.environ["LOCAL_RANK"]))
        if is_function:
            value = program.call_function(job)
            if not channel.value(value):
                _silence()
                sys.exit(1)
            ending.wait_for_all()
        else:
            run_it = program.run_script if kind == "script" else program.run_module
            run_it(job["program"])
            channel.done()
    except SystemExit as e:
        _report_exit(channel, e)
        raise
    except BaseException as e:
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler raises
        except BaseException:  # it does, before it is replaced
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if breakpoints.debugs_failures and not isinstance(e, KeyboardInterrupt):
            from procession.worker import debugging

            debugging.post_mortem(e)
        _report_error(channel, e, rebuildable=is_function)
        if not is_function:
            sys.excepthook(type(e), e, e.__traceback__)
        _silence()
        raise


def warm_up() -> None:
    """Import what every rank needs, and what describes a failure.

    This is done before the program starts: it may leave no descriptor to import with.
    """
    for name in NEEDED:
        __import__(name)
    shown.find_place()


def before_fork(job: Job) -> None:
    """Do what a rank that is forked needs from the process that it is a fork of."""
    warm_up()
    if "imports" in job:
        __import__("procession.worker.renewal")
    if job["program"]["kind"] != "live":
        ending.remember()


def _report_error(channel: outcome.OutcomeChannel, e: BaseException, *, rebuildable: bool) -> None:
    from procession.worker import description

    code = 130 if isinstance(e, KeyboardInterrupt) else 1
    with _Undisturbed():
        channel.failing(description.kind_of(e), description.type_name(type(e)), code)
        record = description.describe(e, rebuildable=rebuildable)
        shared = sys.modules.get("procession.worker.shared")
        if shared is not None and shared.failure is e:
            record["shared"] = True
        channel.error(record)


class _Undisturbed:
    """Delays the signals that would end this process, so that it can explain its failure.

    A handler of the program could raise here, and other threads may receive them, too: so all of
    their handlers and default actions wait.
    """

    def __enter__(self) -> None:
        self._came: list[int] = []
        self._before = {n: h for n in ENDING if (h := signal.getsignal(n)) is not None}
        for number in self._before:
            signal.signal(number, self._note)

    def _note(self, number: int, _: object) -> None:
        self._came.append(number)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for number in self._came:
            os.kill(os.getpid(), number)


def _report_exit(channel: outcome.OutcomeChannel, e: SystemExit) -> None:
    from procession.worker.description import killed_children, text_of

    code = _exit_code(e)
    if code == 0:
        channel.done()
        return
    with _Undisturbed():
        channel.failing("exit", "SystemExit", code)
        message = "" if isinstance(e.code, int) else text_of(e.code)
        told = {"kind": "exit", "type": "SystemExit", "code": code, "message": message}
        channel.error({**told, "children": killed_children("")})


def _exit_code(e: SystemExit) -> int:
    """Give the exit code that an interpreter has for this."""
    if isinstance(e.code, int):
        return e.code & 0xFF if -(2**63) <= e.code < 2**63 else 255
    return int(e.code is not None)


def _silence() -> None:
    """Keep the interpreter from printing the exception a second time, with our frames."""
    sys.excepthook = lambda *_: None  # pyright: ignore[reportUnknownLambdaType]


def run_forked(job: Job) -> NoReturn:
    """Run the job in a process forked from the launcher, and leave without its exit handlers."""
    import threading

    shown.show_short(job["title"])
    _forget_launchers_multiprocessing()
    code = _code_of(job)
    try:
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util._exit_function()  # flushes queues, ends daemonic children
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if code == 0:
            ending.wait_for_peers()
    finally:
        ending.exit_at_once(code)


def _code_of(job: Job) -> int:
    """Run the job; gives the exit code of this process, minus SIGINT after KeyboardInterrupt."""
    try:
        run(job)
    except SystemExit as e:
        if e.code is not None and not isinstance(e.code, int):
            print(e.code, file=sys.stderr)
        return _exit_code(e)
    except KeyboardInterrupt:
        return -signal.SIGINT
    except BaseException:
        return 1  # it was reported
    return 0


def _forget_launchers_multiprocessing() -> None:
    """Disown the launcher's children and clean-ups, as `Process` does in its own forks."""
    util = sys.modules.get("multiprocessing.util")
    if util is None:
        return
    process: Any = sys.modules["multiprocessing.process"]
    process._children = set()
    util._finalizer_registry.clear()
    util._run_after_forkers()


def run_fresh() -> None:
    """Run the job that lies in the memory file which `sys.argv` gives, in a new interpreter."""
    import marshal

    job = marshal.loads(program.read_all(int(sys.argv[1])))
    warm_up()
    shown.show_short(job["title"])
    for kept in (*job["fds"].values(), *job["inherit"]):
        os.set_inheritable(kept, False)
    run(job)


def run_in_fork(job: Job) -> None:
    """Run the job in a process forked from the agent."""
    streams.renew()
    shown.show(job["title"])
    if "imports" in job:
        from procession.worker.renewal import after_fork

        after_fork(*job["imports"])
    code = _code_of(job)
    ending.leave(code)
    if code < 0:
        raise KeyboardInterrupt
    sys.exit(code)
