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
from procession.system import plain as signal
from procession.system.prctl import die_with_parent
from procession.worker import setup

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol

    from procession.agent.preload import Preloaded
    from procession.system.eventloop import EventLoop

    Job = dict[str, Any]
    Fault = tuple[str, int, str]  # why a rank did not reach its program: stage, errno and text

    class Group(Protocol):
        """Whose ranks are forked; see `run`."""

        def started(self, rank: int, pid: int, at: int, sock: socket.socket | None) -> None:
            """Take note of a process that was started. sock: our end of its channel, if any."""

        def failed(self, rank: int, stage: str, number: int, text: str) -> None:
            """Take note that a rank got no process."""

        def reached(self, rank: int) -> None:
            """Take note that a rank has reached its program."""
else:
    from _collections import deque  # `collections` around it takes 1 ms to import

ALL_SIGNALS = signal.valid_signals()
SEPARATOR = "\0"  # of what a rank says on its status pipe
START_PROGRAM = "start its program"


class Forking:
    """The queue of ranks to be forked, and the status pipes of those that were.

    mask: the signals that ranks shall have blocked. handlers: the handlers that they shall have.
    leave: gives up what is the agent's own, in a rank.
    """

    def __init__(
        self,
        loop: EventLoop,
        mask: Iterable[int],
        handlers: dict[Any, Any],
        leave: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._mask = {int(n) for n in mask}
        self._own_mask = self._mask - {int(signal.SIGCHLD)}
        # None: not set by Python. An integer may be a member of an enumeration, which is refused.
        plain = {n: h or signal.SIG_DFL for n, h in handlers.items()}
        self._handlers = {int(n): int(h) if isinstance(h, int) else h for n, h in plain.items()}
        self._programs = Programs(self._handlers, self._mask)
        self._leave = leave
        self._pid = os.getpid()
        self._asked: deque[tuple[deque[Job], list[int]]] = deque()  # jobs, their descriptors
        self._pipes: dict[int, tuple[int, bytearray]] = {}  # rank -> status pipe, what it said
        self._faults: dict[int, Fault] = {}  # by rank
        self._failed_set_up: int | None = None  # the rank that raises what the set-up raised
        # What ranks have in common whose variables this process has now, for its forks; and what
        # it had before.
        self._surroundings: Job | None = None
        self._own_variables: dict[str, str] = {}

    def begin_attempt(self) -> None:
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
        """Keep nothing of a group that is over, after `end`."""
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
        return bool(self._asked) and self._failed_set_up is None and not self._loop.holds

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

    def fork(self, common: Job, preloaded: Preloaded | None, group: Group) -> Job | None:
        """Fork the next rank. In the rank, gives its job; else tells its group what came of it."""
        self._group = group
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
                group.failed(job["rank"], "make its pipes", *why(no_room))
                return None
            if job["kind"] == "exec" and self._start(common, job, fds):
                return None
            own = self._fork(common, job, fds)
            if "shared" in common and _set_up_failed():
                self._failed_set_up = job["rank"]
            return own
        finally:
            if not jobs and os.getpid() == self._pid:
                close_all(fds)
                if not self._asked:
                    self._programs.done()

    def _start(self, common: Job, job: Job, fds: list[int]) -> bool:
        """Start a program without a fork of this process; False if that cannot be done."""
        rank: int = job["rank"]
        try:
            started = self._programs.start(common, job, fds)
        except OSError as e:
            self._group.failed(rank, "fork", *why(e))
            return True
        if started is None:
            return False
        if started.fault:
            text = f"{os.strerror(started.fault)}: {started.path!r}"
            self._faults[rank] = START_PROGRAM, started.fault, text
        self._group.started(rank, started.pid, started.at, None)
        if not started.fault:
            self._group.reached(rank)
        return True

    def _fork(self, common: Job, job: Job, fds: list[int]) -> Job | None:
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
            self._group.failed(rank, stage, *why(e))
            return None
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
        self._pipes[rank] = read_end, bytearray()
        self._loop.watch(read_end, lambda: self.read_status(rank))
        self._group.started(rank, pid, at, ours)
        return None

    # -- in the rank

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
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            stage = "set up its streams, directory and environment"
            if job["kind"] == "python":
                self._leave()
                self._programs.close()
                others = {fd for _, each in self._asked for fd in each} - {*fds}
                close_all([read_end, *self.own, *others])
            if "place" in job:
                stage = "take its place (CPUs, limits)"
                setup.take_place(job["place"])
                stage = "set up its streams, directory and environment"
            job = setup.prepare(common, job, fds)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            if job["kind"] != "python":
                stage = START_PROGRAM
                setup.execute(job)
        except BaseException as e:
            number, text = why(e)
            said = f"{stage}{SEPARATOR}{number}{SEPARATOR}{text}"
            os.write(status, said.encode(errors="backslashreplace")[:4000])
            os._exit(127)
        os.close(status)
        return job

    # -- what ranks say on their way

    @property
    def own(self) -> list[int]:
        """The status pipes."""
        return [fd for fd, _ in self._pipes.values()]

    def read_status(self, rank: int) -> None:
        """Read what a rank says on its way, if it is; tell if it has reached its program."""
        if rank not in self._pipes:
            return
        fd, said = self._pipes[rank]
        try:
            while data := os.read(fd, 4096):
                said += data
        except BlockingIOError:
            return
        self._loop.forget(fd)  # before: a rank that is on its way may have it, too
        os.close(fd)
        del self._pipes[rank]
        if not said:
            self._group.reached(rank)
            return
        stage, number, text = said.decode(errors="replace").split(SEPARATOR, 2)
        self._faults[rank] = stage, int(number), text

    def fault_of(self, rank: int) -> Fault | None:
        """Give, once, why a rank did not reach its program."""
        return self._faults.pop(rank, None)


def why(e: BaseException) -> tuple[int, str]:
    """Give the errno of an error, or 0, and what it says."""
    if not isinstance(e, OSError) or not e.strerror:
        return 0, f"{type(e).__name__}: {e}"
    where = f": {e.filename!r}" if e.filename else ""
    return e.errno or 0, e.strerror + where


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
    if scratch := common.get("scratch"):
        import shutil

        shutil.rmtree(scratch, ignore_errors=True)
