"""The process of a forkserver: how it is started, also before anything else of a launch is done.

An interpreter takes its time to start. The command thus starts its forkserver first of all, and
imports the rest of itself meanwhile; so this file imports next to nothing. Whatever becomes of the
launcher then: a forkserver goes when its socket is closed.
"""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import errno
import os
import sys

from procession.system.identity import own_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET_FD = 3
LAUNCHER = "PROCESSION_LAUNCHER"
ROOM = 8  # descriptors that must be left for an early start; the launch itself needs some to fail
CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from procession.forkserver.server import main; del sys.path[0]; "
    f"main({SOCKET_FD}, int(sys.argv[2]))"
)
FRESH_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from procession.worker.bootstrap import run_fresh; del sys.path[0]; "
    "run_fresh(int(sys.argv[2]))"
)
PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Started:
    """A forkserver of which nobody has taken hold yet: its process, our socket, its variables."""

    def __init__(self, pid: int, sock: socket.socket, env: Mapping[str, str]) -> None:
        self.pid = pid
        self.sock = sock
        self.env = env

    def end(self) -> None:
        """End it: it has done nothing."""
        self.sock.close()
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


early: list[Started] = []  # to be taken, each once


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
    }
    given = [f"-{letter * count}" for letter, count in simple.items() if count]
    if flags.isolated:
        given.append("-I")
    else:
        given += ["-E"] * bool(flags.ignore_environment) + ["-s"] * bool(flags.no_user_site)
        given += ["-P"] * bool(getattr(flags, "safe_path", False))
    given += ["-S"] * bool(flags.no_site)
    warnings = list[str](sys.warnoptions)
    if flags.dev_mode and warnings == ["default"]:
        warnings = []
    given += [f"-W{option}" for option in warnings]
    for name, value in getattr(sys, "_xoptions", {}).items():
        given.append(f"-X{name}" if value is True else f"-X{name}={value}")
    return given


def fresh_interpreter() -> list[str]:
    """Give the command that runs one job in a new interpreter, but for the job's descriptor."""
    return [sys.executable, *interpreter_flags(), "-u", "-c", FRESH_CODE, PACKAGE_ROOT]


def start(env: Mapping[str, str]) -> Started:
    """Start one by exec. env: its environment. Raises OSError."""
    if not sys.executable:
        raise OSError(errno.ENOENT, "Python does not know its own path (sys.executable)")
    ours, theirs = socket.socketpair()
    try:
        command = [sys.executable, *interpreter_flags(), "-c", CODE, PACKAGE_ROOT]
        high = _duplicate_above(theirs.fileno(), SOCKET_FD)
        try:
            pid = os.posix_spawn(
                sys.executable,
                [*command, str(os.getpid())],
                # What /proc shows of a rank that is forked is what its forkserver was started with.
                {**env, LAUNCHER: own_mark()},
                # Ctrl-C on the terminal is for the launcher to take.
                setsid=True,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                    (os.POSIX_SPAWN_DUP2, 0, 1),
                    (os.POSIX_SPAWN_DUP2, high, SOCKET_FD),
                ],
            )
        finally:
            os.close(high)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return Started(pid, ours, env)


def start_early() -> None:
    """Start one for the launch that is to come, if that can be done; else that will say why."""
    room: list[int] = []
    try:
        for fd in (0, 1, 2):
            os.fstat(fd)  # without one of them, the socket would become somebody's stream
        for _ in range(ROOM):
            room.append(os.dup(0))  # noqa: PERF401 (those before one that fails are closed, too)
    except OSError:
        return
    finally:
        for fd in room:
            os.close(fd)
    try:
        early.append(start(dict(os.environ)))
    except OSError:
        pass


def end_early() -> None:
    """End what was started early, and not taken."""
    while early:
        early.pop().end()


def _duplicate_above(fd: int, number: int) -> int:
    """Duplicate a descriptor onto a number above this one. Raises OSError."""
    try:
        import fcntl

        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, number + 1)
    except OSError as e:
        if e.errno == errno.EINVAL:  # the limit of open files is no higher
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from None
        raise
    except ImportError:  # it is a file, which could not be opened either
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from None
