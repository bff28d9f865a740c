"""Who runs trials may be killed with SIGKILL: then a guard ends all that it has started.

Theory of operation. All that a run starts has `RUN` in its environment, and its directories have
the value in their names. Before that, the run forks: the child does nothing but wait for the end of
a pipe, of which only the run has the other end. If the pipe ends without a word, the run was
killed.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator

from chaos import processes

RUN = "CHAOS_RUN"
GOING_TIME = 30.0  # seconds that killed processes may take to be gone
ALL_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Have what is started in the meantime end with this process, however that ends."""
    run = uuid.uuid4().hex[:8]  # a socket below such a directory must have a short path
    read_end, write_end = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(write_end)
        os.setsid()  # no Ctrl-C is for the guard
        signal.pthread_sigmask(signal.SIG_BLOCK, ALL_SIGNALS)
        if not os.read(read_end, 1):
            _end(run)
        os._exit(0)
    os.close(read_end)
    os.environ[RUN] = run
    try:
        yield
    finally:
        os.write(write_end, b".")
        os.close(write_end)
        os.waitpid(pid, 0)


def _end(run: str) -> None:
    deadline = time.monotonic() + GOING_TIME
    while (left := processes.marked(run, RUN)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    for path in glob.glob(f"{tempfile.gettempdir()}/chaos-{run}-*"):
        shutil.rmtree(path, ignore_errors=True)
