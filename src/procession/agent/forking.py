"""Starting ranks: from the launcher's request to a process that has reached its program.

Theory of operation. Requests wait in a queue, from which the agent's loop takes one at a time.

A rank is forked with all signals blocked. It makes its session before anything else. If a signal to
its process group comes too early for that (ESRCH), it is sent to the process alone, which has no
children yet. If the rank cannot reach its program, it writes why to a pipe of its own; the pipe is
closed on exec, or by the bootstrap, so its end without a message means that the program was
reached.

Between fork and exec every page that a process writes is copied, in the child and then in the
agent: at some microseconds each, that is most of what a start costs. So nothing is imported
and little is made there, and descriptors are left to close-on-exec where there is an exec.

Programs are not forked at all where that can be avoided, see `programs`.

Rejected: one status pipe for all (an exec shows only as the end of a pipe of its own).
"""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import errno
import os
import time

from procession.agent.programs import Programs
from procession.agent.protocol import close_all
from procession.system.prctl import die_with_parent
from procession.system.signals import plain as signal
from procession.worker import setup

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable
    from typing import Any

    from procession.agent.preload import Preloaded
    from procession.system.eventloop import EventLoop

    Came = tuple[Any, ...]  # of a fork; see `Forking.fork`

    Job = dict[str, Any]
else:
    from _collections import deque  # `collections` around it takes 1 ms to import

ALL_SIGNALS = signal.valid_signals()
STAGE_SEPARATOR = b"\0"
START_PROGRAM = "start its program"


class Forking:
    """The queue of ranks to be forked, and the status pipes of those that were.

    mask: the signals that ranks shall have blocked. handlers: the handlers that they shall have.
    told: called with a status pipe that has news. leave: closes the agent's own descriptors, in a
    rank. status: what was said, by status pipe.
    """

    def __init__(
        self,
        loop: EventLoop,
        mask: Iterable[int],
        handlers: dict[Any, Any],
        told: Callable[[int], None],
        leave: Callable[[], None],
    ) -> None:
        self.status: dict[int, tuple[int, bytearray]] = {}
        self._loop = loop
        self._told = told
        self._mask = {int(n) for n in mask}
        self._own_mask = self._mask - {int(signal.SIGCHLD)}
        # None: not set by Python. An integer may be a member of an enumeration, which is refused.
        plain = {n: h or signal.SIG_DFL for n, h in handlers.items()}
        self._handlers = {int(n): int(h) if isinstance(h, int) else h for n, h in plain.items()}
        self._programs = Programs(self._handlers, self._mask)
        self._leave = leave
        self._pid = os.getpid()
        self._asked: deque[tuple[deque[Job], list[int]]] = deque()  # jobs, their descriptors
        self._pipes: dict[int, int] = {}  # rank -> status pipe
        self._faults: dict[int, bytes] = {}  # rank -> why it did not reach its program
        self._failed_set_up: int | None = None  # the rank that raises what the set-up raised
        # What ranks have in common whose variables this process has now, for its forks; and what
        # it had before.
        self._surroundings: Job | None = None
        self._own_variables: dict[str, str] = {}

    def begin(self) -> None:
        """Take note that another attempt begins."""
        self._failed_set_up = None

    def _surround(self, common: Job) -> None:
        """Take the variables of the ranks, once for all of them: they inherit them."""
        if common is not self._surroundings:
            if self._surroundings is None:
                self._own_variables = dict(os.environ)
            self._surroundings = common
            setup.replace_environment(common["env"])

    def end(self) -> None:
        """Take note that the group is over: its variables go."""
        if self._surroundings is not None:
            self._surroundings = None
            setup.replace_environment(self._own_variables)

    def forget(self) -> None:
        """Keep nothing of the group that is over."""
        self.end()
        self._programs.forget()
        self._faults.clear()
        self._failed_set_up = None

    def ask(self, jobs: list[Job], fds: list[int]) -> None:
        """Take jobs into the queue, and the descriptors that they share."""
        if not jobs:
            close_all(fds)
            return
        self._asked.append((deque(jobs), fds))
        if any(job["rank"] == self._failed_set_up for job in jobs):
            self._failed_set_up = None  # it starts again

    @property
    def due(self) -> bool:
        """Whether a rank waits to be forked, and may be."""
        return bool(self._asked) and self._failed_set_up is None

    @property
    def next(self) -> tuple[Job, list[int]]:
        """The job of the rank that is due, and the descriptors that it names."""
        jobs, fds = self._asked[0]
        return jobs[0], fds

    def cancel(self) -> None:
        """Forget the jobs in the queue."""
        while self._asked:
            close_all(self._asked.popleft()[1])
        self._programs.done()

    def fork(self, common: Job, preloaded: Preloaded | None) -> Job | Came:
        """Fork the next rank. In the rank, gives its job; else what came of it.

        That is "started", rank, pid, when, our end of its outcome channel or None, and whether it
        is in its program; or "failed", rank, stage, errno, text, when.
        """
        jobs, fds = self._asked[0]
        job = jobs.popleft()
        if not jobs:
            self._asked.popleft()
        if job["kind"] == "python" and preloaded is not None:
            if preloaded.fault:
                job["kind"] = "fresh"
            job["imports"] = (preloaded.printed, preloaded.variables)
        try:
            places: list[int] = [*job["fds"].values(), *job["inherit"]]
            if any(fds[place] < 0 for place in places):
                # The kernel dropped descriptors for which there was no room here.
                no_room = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                return _failed(job["rank"], "make its pipes", no_room)
            came = self._started(common, job, fds) if job["kind"] == "exec" else None
            came = self._forked(common, job, fds) if came is None else came
            if "shared" in common and _set_up_failed():
                self._failed_set_up = job["rank"]
            return came
        finally:
            if not jobs and os.getpid() == self._pid:
                close_all(fds)
                if not self._asked:
                    self._programs.done()

    def _started(self, common: Job, job: Job, fds: list[int]) -> Came | None:
        """Start a program without a fork of this process; None if that cannot be done."""
        rank: int = job["rank"]
        try:
            started = self._programs.start(common, job, fds)
        except OSError as e:
            return _failed(rank, "fork", e)
        if started is None:
            return None
        if started.fault:
            text = f"{os.strerror(started.fault)}: {started.path!r}"
            self._faults[rank] = _said(START_PROGRAM, started.fault, text)
        return ("started", rank, started.pid, started.at, None, not started.fault)

    def _forked(self, common: Job, job: Job, fds: list[int]) -> Job | Came:
        rank: int = job["rank"]
        stage = "make its pipes"
        ours = theirs = None
        try:
            if job["kind"] != "exec":
                ours, theirs = socket.socketpair()
                job["fds"]["result"] = len(fds)
                fds = [*fds, theirs.fileno()]
            if job["kind"] == "python":
                from procession.worker import bootstrap

                bootstrap.before_fork(job)
                stage = "set up its environment"
                self._surround(common)
                stage = "make its pipes"
            read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            stage = "fork"
            signal.pthread_sigmask(signal.SIG_BLOCK, ALL_SIGNALS)
            at = time.monotonic_ns()  # before: a rank may run, and end, before we go on here
            try:
                pid = os.fork()
            except BaseException:
                os.close(read_end)
                os.close(write_end)
                raise
        except (OSError, ValueError) as e:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._own_mask)
            for each in (ours, theirs):
                if each is not None:
                    each.close()
            return _failed(rank, stage, e)
        if not pid:
            if ours is not None and theirs is not None:
                ours.close()
                theirs.detach()
            return self._become_rank(common, job, fds, write_end, read_end)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._own_mask)
        os.close(write_end)
        if theirs is not None:
            # At once: its end shows when the rank died, and the ranks that are forked next are not
            # to hold it either.
            theirs.close()
        self.status[read_end] = rank, bytearray()
        self._pipes[rank] = read_end
        self._loop.watch(read_end, lambda: self._told(read_end))
        return ("started", rank, pid, at, ours, False)

    # -- in the rank

    def restore_handlers(self) -> None:
        """Set the handlers of signals as they were before those of the agent."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _become_rank(
        self, common: Job, job: Job, fds: list[int], status: int, read_end: int
    ) -> Job:
        """In the child: become the rank. Returns the job of a Python program."""
        stage = "make its session"
        try:
            os.setsid()
            if not die_with_parent(self._pid):
                os._exit(1)
            signal.set_wakeup_fd(-1)
            self.restore_handlers()
            stage = "set up its streams, directory and environment"
            if job["kind"] == "python":
                self._leave()
                self._programs.close()
                others = {fd for _, each in self._asked for fd in each} - {*fds}
                close_all([read_end, *self.status, *others])
            if "place" in job:
                stage = "take its place (CPUs, priority, memory)"
                setup.take_place(job["place"])
                stage = "set up its streams, directory and environment"
            job = setup.prepare(common, job, fds)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            if job["kind"] != "python":
                stage = START_PROGRAM
                setup.execute(job)
        except BaseException as e:
            number = e.errno if isinstance(e, OSError) and e.errno else 0
            text = (e.strerror if isinstance(e, OSError) else None) or f"{type(e).__name__}: {e}"
            if isinstance(e, OSError) and e.filename:
                text += f": {e.filename!r}"
            os.write(status, _said(stage, number, text)[:4000])
            os._exit(127)
        os.close(status)
        return job

    # -- what ranks say on their way

    def read_status(self, fd: int) -> int | None:
        """Read what a rank says on its way; gives the rank if it has reached its program."""
        rank, said = self.status[fd]
        try:
            while data := os.read(fd, 4096):
                said += data
        except BlockingIOError:
            return None
        self._loop.forget(fd)  # before: a rank that is on its way may have it, too
        os.close(fd)
        del self.status[fd], self._pipes[rank]
        if said:
            self._faults[rank] = bytes(said)
            return None
        return rank

    def status_of(self, rank: int) -> tuple[int, ...]:
        """Give the status pipe of a rank, if it is still open."""
        fd = self._pipes.get(rank)
        return () if fd is None else (fd,)

    def fault_of(self, rank: int) -> tuple[str, int, str] | None:
        """Give, once, why a rank did not reach its program: stage, errno and text."""
        said = self._faults.pop(rank, None)
        if said is None:
            return None
        stage, number, text = said.split(STAGE_SEPARATOR, 2)
        return stage.decode(), int(number), text.decode(errors="replace")


def _failed(rank: int, stage: str, e: OSError | ValueError) -> Came:
    number = e.errno if isinstance(e, OSError) else 0
    text = (e.strerror if isinstance(e, OSError) else None) or str(e)
    return ("failed", rank, stage, number or 0, text, time.monotonic_ns())


def _said(stage: str, number: int, text: str) -> bytes:
    said = (stage, str(number), text)
    return STAGE_SEPARATOR.join(word.encode(errors="backslashreplace") for word in said)


def _set_up_failed() -> bool:
    from procession.worker import shared

    return shared.failure is not None


def remove_traces(common: Job) -> None:
    """Remove what a group has made for all of its ranks: its memory groups, scratch directory."""
    for path in common.get("cgroups", ()):
        try:
            os.rmdir(path)
        except OSError:
            pass  # never made, or removed already
    scratch = common.get("scratch")
    if scratch:
        import shutil

        shutil.rmtree(scratch, ignore_errors=True)
