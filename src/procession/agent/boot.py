"""The process of an agent: how it is started, also before anything else of a launch is done.

An interpreter takes its time to start. The command thus starts its agent first of all, and
imports the rest of itself meanwhile; so this file imports next to nothing. Whatever becomes of the
launcher then: an agent goes when its socket is closed.
"""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import errno
import fcntl
import os
import sys

from procession.system.files import named
from procession.system.identity import own_mark, proc_is_ours
from procession.system.processes import wake
from procession.system.tree import CHILDREN
from procession.worker.shown import HUGE_PAGES, ROOM_BYTES, TITLE_ROOM, TUNABLES
from procession.worker.shown import ROOM as MARK_ROOM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LAUNCHER = "PROCESSION_LAUNCHER"
ROOM = 8  # descriptors that must be left for an early start; the launch itself needs some to fail
# What an interpreter, the loader and the C library read when they start, and coverage, which is
# begun with the interpreter.
EARLY_VARIABLES = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "TZ", "VIRTUAL_ENV",
                   "COVERAGE_PROCESS_")  # fmt: skip
# What every interpreter that we start runs, by its path; see there.
ENTRY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "entry.py")


class BootedAgent:
    """An agent that was started and is not in use yet: its pid, our socket, its variables."""

    def __init__(self, pid: int, sock: socket.socket, env: Mapping[str, str]) -> None:
        self.pid = pid
        self.sock = sock
        self.env = env

    def end(self) -> None:
        """End it: it has done nothing."""
        self.sock.close()
        try:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        except OSError:
            pass  # this program reaps all children, or ignores SIGCHLD


early: list[BootedAgent] = []  # to be taken, each once


def is_early(name: str) -> bool:
    """Tell whether a variable is read when an interpreter starts: later, it has no effect."""
    return name.startswith(EARLY_VARIABLES)


def interpreter_flags() -> list[str]:
    """Give the flags with which this interpreter was started, for another one like it."""
    flags = sys.flags
    simple = {
        "d": flags.debug,
        "O": flags.optimize,
        "B": 0 if flags.isolated else flags.dont_write_bytecode,
        "b": flags.bytes_warning,
        "v": flags.verbose,
        "q": flags.quiet,
        "I": flags.isolated,
        "E": flags.ignore_environment,
        "s": flags.no_user_site,
        "P": getattr(flags, "safe_path", False),
        "S": flags.no_site,
    }
    given = [f"-{letter * count}" for letter, count in simple.items() if count]
    # What the other one has by its own environment, or by -X dev.
    variable = "" if flags.ignore_environment else os.environ.get("PYTHONWARNINGS", "")
    implied = [*variable.split(","), *["default"] * flags.dev_mode]
    given += [f"-W{option}" for option in sys.warnoptions if option not in implied]
    for name, value in getattr(sys, "_xoptions", {}).items():
        given.append(f"-X{name}" if value is True else f"-X{name}={value}")
    return given


def check_python() -> None:
    """Refuse an interpreter that cannot run what is ours. Raises OSError.

    In a frozen application (PyInstaller, cx_Freeze, ...) `sys.executable` is the application, which
    would start from its beginning, and launch the next one, without end. Applications that embed
    Python need not say what they are; there, the second one finds our words among its own.
    """
    if not sys.executable:
        raise OSError(errno.ENOENT, "Python does not know its own path (sys.executable)")
    if getattr(sys, "frozen", False) or ENTRY in sys.argv[1:]:
        what = "is this application, not a Python interpreter"
        advice = (
            "functions can run there with start_method='fork'; for anything else, launch from a "
            "Python that has procession installed"
        )
        raise OSError(errno.ENOTSUP, f"sys.executable ({sys.executable}) {what}: {advice}")


def check_proc() -> None:
    """Refuse a machine without /proc, or whose /proc is not what is needed. Raises OSError."""
    lacks = ""
    if not os.path.exists("/proc/self/fd"):
        lacks = "/proc"
    elif not proc_is_ours():
        lacks = "/proc of this namespace of pids (unshare --mount-proc)"
    elif not os.path.exists(CHILDREN):
        lacks = f"{CHILDREN} (CONFIG_PROC_CHILDREN)"
    if lacks:
        raise named(lacks, OSError(errno.ENOSYS, "not mounted"))


# An interpreter that was started with PYTHONINSPECT does not obey `sys.exit`. Ranks find it set.
NOT_ITS_OWN = (LAUNCHER, "PYTHONINSPECT")


def own_python(function: str, *words: str, flags: Sequence[str] = ()) -> list[str]:
    """Give the command line of a Python that runs a function of ours.

    No module of the current directory can take the place of another one there, as it could with
    `python -m`. function: `module:function`, called without arguments. words: its `sys.argv[1:]`.
    flags: the interpreter's options.
    """
    return [sys.executable, *flags, ENTRY, function, *words]


def own_python_here(command: Sequence[str]) -> list[str]:
    """Give the same command for this machine, of one that `own_python` gave on another machine."""
    _, first, *words = command
    return [sys.executable, ENTRY if first.endswith("procession/agent/entry.py") else first, *words]


def fresh_interpreter() -> list[str]:
    """Give the command that runs one job in a new interpreter, without the job's descriptor."""
    return own_python("procession.worker.bootstrap:run_fresh", flags=[*interpreter_flags(), "-u"])


def start(env: Mapping[str, str], *, room: bool = False, passed: Sequence[int] = ()) -> BootedAgent:
    """Start one by exec. env: its environment. room: it may get another owner later.

    passed: descriptors of this process that it has under the same numbers, and its ranks as well.

    Raises OSError.
    """
    check_python()
    check_proc()
    ours, theirs = socket.socketpair()
    try:
        main = "procession.agent.main:main"
        number = next(n for n in range(3, 4 + len(passed)) if n not in passed)
        # The last word is given up for the title.
        words = str(number), str(os.getpid()), ",".join(map(str, passed)), " " * TITLE_ROOM
        command = own_python(main, *words, flags=interpreter_flags())
        targets = {number: theirs.fileno(), **{fd: fd for fd in passed}}
        copies: list[tuple[int, int]] = []
        try:
            for target, fd in targets.items():
                copies.append((_duplicate_above(fd, max(targets)), target))
            pid = os.posix_spawn(
                sys.executable,
                command,
                # What /proc shows of a rank that is forked is what its agent was started with.
                # It comes first, and is never changed: see `worker.shown`.
                {
                    LAUNCHER: own_mark(),
                    **({MARK_ROOM: " " * ROOM_BYTES} if room else {}),
                    **{n: v for n, v in env.items() if n and n not in NOT_ITS_OWN},
                    **({} if TUNABLES in env else {TUNABLES: HUGE_PAGES}),
                },
                # Ctrl-C on the terminal is for the launcher to take.
                setsid=True,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                    (os.POSIX_SPAWN_DUP2, 0, 1),
                    *((os.POSIX_SPAWN_DUP2, copy, target) for copy, target in copies),
                ],
            )
            try:
                # The end of this process wakes an agent that was stopped while it still begins: it
                # cannot have set its parent-death signal yet. What its end of the socket shares
                # with ours tells of the end of all that hold ours; see `owner`.
                wake(theirs.fileno(), pid)
            except OSError:
                pass  # it will do it itself, a moment later
        finally:
            for copy, _ in copies:
                os.close(copy)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return BootedAgent(pid, ours, env)


def start_early() -> BootedAgent | None:
    """Start one for the launch to come, if that can be done; else the launch will say why."""
    try:
        for fd in (0, 1, 2):
            os.fstat(fd)  # if one is closed, the socket would get its number
        os.close(_duplicate_above(0, 2 + ROOM))
        started = start(dict(os.environ))
    except OSError:
        return None
    early.append(started)
    return started


def end_early() -> None:
    """End what was started early, and not taken."""
    while early:
        early.pop().end()


def _duplicate_above(fd: int, number: int) -> int:
    """Duplicate a descriptor onto a number above this one. Raises OSError."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, number + 1)
    except OSError as e:
        if e.errno == errno.EINVAL:  # the limit of open files is no higher
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from None
        raise
