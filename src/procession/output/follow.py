"""The output of all ranks of a group, followed and shown on the console; see `loop` for how."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from procession.output.feed import Feed, Source
from procession.output.loop import Loop
from procession.output.screen import Screen
from procession.output.tail import Tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.output.console import Console

_SAY = 1.0  # seconds that a console has for a line of our own
_CLOSE = 2.0  # seconds for what is left at close()


class Follower:
    r"""Follows the pipes and files of a group and shows them on two consoles.

    partial_after: seconds after which a line is shown although its end has not come.
    progress_every: seconds between two states of a line that replaces itself by `\r`.

    cut: the log file of some source has not taken all that was read of it.

    There is a thread, named "procession-output", from the first source to the next `drain`. The
    consoles stay the caller's; close them after `close`. All methods may be called from any
    thread. Streams that lead to the same terminal or file share it: their lines never mix.
    """

    def __init__(
        self,
        stdout: Console,
        stderr: Console,
        *,
        partial_after: float = 0.2,
        progress_every: float = 1.0,
    ) -> None:
        self._consoles = (stdout, stderr)
        self._out, self._err = self._screens()
        self._times = (partial_after, progress_every)
        self._tails: dict[tuple[int, str], Tail] = {}
        self._loop: Loop | None = None
        self._fault: Exception | None = None
        self.cut = False
        self._together = False
        self._lock = threading.Lock()

    def _screens(self) -> tuple[Screen, Screen]:
        stdout, stderr = self._consoles
        out = Screen(stdout)
        return out, out if stdout.place == stderr.place else Screen(stderr)

    def add_pipe(self, fd: int, source: Source, copy: int = -1) -> None:
        """Follow a pipe until its writers have closed it; takes over its read end.

        copy: a file that is to have what is read, which is taken over, too; -1: none.
        """
        os.set_blocking(fd, False)
        self._add(fd, source, is_file=False, copy=copy)

    def add_file(self, path: str | os.PathLike[str], source: Source, offset: int = 0) -> None:
        """Follow a file, from its beginning or an offset, while it grows.

        Raises OSError if the file cannot be opened.

        A file that has become shorter is followed from its beginning anew. Where inotify is at
        a limit of the machine, the file is looked at every 0.1 seconds.
        """
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if offset:
            os.lseek(fd, offset, os.SEEK_SET)
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        self._add(fd, source, is_file=is_file)

    def _add(self, fd: int, source: Source, *, is_file: bool, copy: int = -1) -> None:
        screen = self._out if source.stream == "out" else self._err
        tail = Tail()
        feed = Feed(fd, source, screen, tail, is_file=is_file)
        feed.copy, feed.on_cut = copy, partial(self._note_cut, tail)
        try:
            with self._lock:
                wake = not self._together
                if self._loop is None or not self._loop.add(feed, wake=wake):
                    self._loop = Loop((self._out, self._err), *self._times)
                    self._loop.add(feed, wake=wake)
                self._tails[source.rank, source.stream] = tail
        except BaseException:
            feed.close()
            raise

    @contextmanager
    def together(self) -> Iterator[None]:
        """Follow what is added in this block from its end on: the thread wakes up once for all."""
        self._together = True
        try:
            yield
        finally:
            self._together = False
            with self._lock:
                loop = self._loop
            if loop is not None:
                loop.wake()

    def _note_cut(self, tail: Tail) -> None:
        tail.cut = self.cut = True

    def tail(self, rank: int, stream: str) -> list[str]:
        r"""Give the last 20 lines (at most 64 KiB) that were read of a stream, "out" or "err".

        Raw text without newlines, a line with `\r` in its latest state, bytes that are not UTF-8
        replaced. Stays available after `drain` and `close`, until the rank gets a new source.
        """
        tail = self._tails.get((rank, stream))
        return [] if tail is None else tail.lines()

    def is_cut(self, rank: int, stream: str) -> bool:
        """Whether the log file of a stream has not taken all that was read of it."""
        tail = self._tails.get((rank, stream))
        return tail is not None and tail.cut

    def last_line(self, rank: int) -> bytes:
        """Give the line that a rank wrote last, on either stream; b"" if there is none."""
        tails = [t for t in self._tails_of(rank) if t.fed_at]
        return max(tails, key=lambda t: t.fed_at).last() if tails else b""

    def _tails_of(self, rank: int) -> list[Tail]:
        found = (self._tails.get((rank, stream)) for stream in ("out", "err"))
        return [tail for tail in found if tail is not None]

    def say(self, line: bytes) -> None:
        """Show a line of our own, with its newline, on stderr; not within a line of a rank."""
        with self._lock:
            loop = self._loop
        if loop is None or not loop.say(line):
            console = self._err.console
            console.write((b"\n" if console.midline else b"") + line, timeout=_SAY)

    def last_read(self, rank: int) -> int:
        """Give when a stream of a rank was last read, in ns of the monotonic clock; 0: never."""
        return max((tail.fed_at for tail in self._tails_of(rank)), default=0)

    def finish(self, ended: Callable[[], object]) -> None:
        """Begin what `drain` does, and return at once; `drain` is still to be called.

        ended: called when everything is shown, or nobody is there to read it: from the thread, or
            at once if there is none. For a console that does not read, this may take for ever.
        """
        with self._lock:
            loop = self._loop
        if loop is None:
            ended()
        else:
            loop.begin_end(ended)

    @property
    def shown(self) -> int:
        """How many bytes the consoles have taken so far."""
        return sum(console.taken for console in self._consoles)

    @property
    def fault(self) -> Exception | None:
        """The error in our own thread after which nothing was shown any more, None: none."""
        loop = self._loop
        return self._fault or (loop.fault if loop is not None else None)

    def drain(self, timeout: float) -> bool:
        """Show everything that was written until now, then forget all sources.

        To be called when the writers are gone. Does not wait for an end-of-file: what a process
        that still writes does later is not read. Incomplete lines are shown as lines. Takes at
        most `timeout` seconds, and one more if that was not enough.

        False if the console did not take everything in time: the rest is dropped, with a note on
        the console if that takes it. The tails are complete in this case, too, unless an object
        that replaced `sys.stdout` hangs in its write().
        """
        with self._lock:
            loop, self._loop = self._loop, None
        in_time = loop is None or loop.finish(timeout)
        if loop is not None:
            self._fault = self._fault or loop.fault
        if in_time:
            return True
        with self._lock:
            # A thread that still hangs somewhere keeps the old ones.
            self._out, self._err = self._screens()
        return False

    def close(self) -> None:
        """End the thread and close all descriptors, within about three seconds; idempotent."""
        self.drain(_CLOSE)
