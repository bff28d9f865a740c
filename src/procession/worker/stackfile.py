"""How a rank shows its launcher where it is: on a signal, it writes its stack to a memory file.

Theory of operation. `faulthandler` handles the signal in C: also while a thread holds the
interpreter's lock, or waits in native code. But an interpreter that runs Python code is now and
then between two frames, and dies of such a look at them (seen in 3.11 to 3.13; see CPython's issue
123967). So it is first asked by another signal, whose handler is Python's, and is called between
two instructions. If it does not answer, it is in native code, where its frames stand still.

It is written to a memory file of the rank; a pipe could be full, and block the rank in its handler.
The launcher opens that file through /proc when it needs the stacks, so that a launch pays only for
the registration. The file's name contains the pid of its process: a fork of a rank has the
descriptor too, but must not be taken for the rank.

Only the thread that gets the signal writes its stack: the main one, to which it is sent. To go
through all threads `faulthandler` needs a list that may change under it: a rank whose threads begin
and end died of that. py-spy looks at them from outside (`explain.stacks.outside`).

Rejected: a real-time signal, which no program uses, but which ends one that has just begun (exec);
a file that the launcher makes (one more descriptor for each rank in the process that has the most
of them); a handler in Python alone (it waits until the main thread runs Python code).
"""

from __future__ import annotations

import os

from procession.system import plain as signal

# Those that a process without a handler ignores: a rank may become another program, or give up its
# handler, in the moment before one arrives. Almost no program in Python uses the first; the second
# is of terminals, which ranks do not have.
SIGNAL = signal.SIGURG
GENTLE = signal.SIGWINCH
BY_PYTHON = '/procession/worker/stackfile.py",'  # in a dump: the frame of the gentle handler
FIRST_FD = 60  # the file's number, or a higher one: programs expect the low ones to be free


def name_of(pid: int) -> str:
    """Give the name of a rank's memory file."""
    return f"procession-stacks-{pid}"


def offer() -> None:
    """Have this process write its main thread's stack when it gets the signal.

    If no descriptor is left, it does not: then only the stacks are missing from reports.
    """
    import faulthandler
    import fcntl

    try:
        low = os.memfd_create(name_of(os.getpid()), os.MFD_CLOEXEC)
        fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
        os.close(low)
        faulthandler.register(SIGNAL, file=fd, all_threads=False, chain=False)
        faulthandler.enable(2)  # a crash in native code prints its traceback to stderr

        def show(*_: object) -> None:
            faulthandler.dump_traceback(fd, all_threads=False)

        signal.signal(GENTLE, show)
        signal.siginterrupt(GENTLE, False)
    except (OSError, RuntimeError, ValueError):
        pass
