"""The one thread that brings the output of all ranks of a group to the console.

Theory of operation. Pipes and the files of a tee are followed alike: epoll says which pipes have
news, inotify (itself in epoll) which files. Every source with news is read once per round, at
most 64 KiB, so that a noisy rank does not starve the others; what a round brought is composed
by `Screen` and written at once. While nothing happens nobody wakes up: timeouts are the deadlines
of incomplete lines, and 0.1 s where inotify is at a limit and files must be looked at instead.

After a round that brought little, the thread pauses for a moment (1 ms; 4 ms if only files had
news, whose writers never wait), so that a rank that prints line by line costs a wake-up per pause
and not one per line. What comes after a silence is shown at once.

An error in here must not harm the ranks: a pipe that nobody reads would block or kill its writer.
So after an unexpected error everything is still read, and thrown away; `fault` says why.
One `Follower` lives until `drain`: a thread and its descriptors; the next attempt has another one.
One that is given up in a write() closes its descriptors when it comes back. A console that does not
read is waited for in poll(2) together with an eventfd that says that the follower is given up.

Rejected: a thread per source (200 ranks have 400), asyncio (files are not in it), waiting for
end-of-file at the end (a stray grandchild keeps the pipe open), polling files (it never sleeps).
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from procession.output.feed import BLOCK, Copies, Feed, Source
from procession.output.screen import Screen
from procession.output.text import Tail
from procession.system.eventloop import EventLoop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.output.console import Console
    from procession.output.gate import Gate, HeldLines
    from procession.system.inotify import Inotify

MOST_HELD = 1 << 20  # bytes that wait while a console is not to be written to
UNWATCHED = -1  # in place of a watch
_LOOK_AT_FILES = 0.1  # seconds, where there is no notification
_PAUSE_MS = 1
_PAUSE_FILES_MS = 4
_BUSY = 16 << 10  # bytes in one read of a pipe: its writer is fast, and may wait for us
_AFTER_FAULT = 0.05  # seconds between two attempts to read
_GIVEN_UP = 1.0  # seconds that a thread that was given up has to come back
_SAY = 1.0  # seconds that a console has for a line of our own
_CLOSE = 2.0  # seconds for what is left at close()
_NOTE = b"procession: the console did not accept all output in time; the rest is not shown [P407]\n"


class Follower:
    r"""Follows the pipes and files of a group, and shows them on two consoles.

    on_shown: called, in the thread, with blocks of `show` that are done with: `whose`, and the
        number of bytes.
    gate: says what is shown, None: all is. screen_of: makes what composes the text of a console.
    tails: by rank and stream, what was read last, also when this has ended. fault: the error after
    which nothing was shown any more, or None. over: it ends, or has ended: nothing is to be added.

    Its thread, "procession-output", starts with the object. The consoles stay the caller's; close
    them after `close`. Call methods from any thread. Streams that lead to the same terminal or file
    share it: their lines never mix.
    """

    def __init__(
        self,
        stdout: Console,
        stderr: Console,
        *,
        on_shown: Callable[[list[tuple[object, int]]], object] | None = None,
        gate: Gate | None = None,
        screen_of: Callable[[Console], Screen] = Screen,
    ) -> None:
        self.tails: dict[tuple[int, str], Tail] = {}
        self._ended = False
        self.fault: Exception | None = None
        out = screen_of(stdout)
        self._screens = out, out if stdout.place == stderr.place else screen_of(stderr)
        self._gate = gate
        self._on_shown = on_shown
        self._feeds: dict[int, Feed] = {}  # by descriptor
        self._files: dict[tuple[int, str], Feed] = {}  # by rank and stream
        self._watched: dict[int, list[Feed]] = {}  # files, by watch
        self._news: dict[Feed, None] = {}  # files that have more, in the order of turns
        self._read = -1  # the most bytes that came from a pipe in this round, -1 for no pipe
        self._done: list[tuple[object, int]] = []  # for `on_shown`
        self._lock = threading.Lock()  # of _abandon while it is open
        self.over = self._finishing = False
        self._given_up = threading.Event()
        self._free = threading.Event()  # the consoles are to be written to
        self._free.set()
        self._clean = True
        self._at_end: Callable[[], object] | None = None
        self._inotify: Inotify | None = None
        self._thread = threading.Thread(target=self._run, name="procession-output", daemon=True)
        with contextlib.ExitStack() as opened:
            self._loop = EventLoop()
            opened.callback(self._loop.close)
            self._abandon = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            opened.callback(os.close, self._abandon)
            try:
                self._thread.start()
            except RuntimeError as e:
                raise OSError(errno.EAGAIN, f"no thread can be started ({e})") from e
            self._opened = opened.pop_all()

    # From other threads.

    def add_pipe(self, fd: int, source: Source) -> None:
        """Follow a pipe until its writers have closed it; takes over its read end."""
        os.set_blocking(fd, False)
        self._add(fd, source, is_file=False)

    def add_file(
        self,
        path: str | os.PathLike[str],
        source: Source,
        offset: int = 0,
        copies: Copies | None = None,
    ) -> None:
        """Follow a regular file, from its beginning or an offset, while it grows.

        copies: gets its lines, too, and is taken over. Raises OSError if the file cannot be opened.

        A file that has become shorter is followed from its beginning anew. Where inotify is at
        a limit of the machine, the file is looked at every 0.1 seconds.
        """
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            os.lseek(fd, offset, os.SEEK_SET)
        except OSError:
            os.close(fd)
            raise
        self._add(fd, source, is_file=True, copies=copies)

    def _add(self, fd: int, source: Source, *, is_file: bool, copies: Copies | None = None) -> None:
        screen = self._screens[source.stream == "err"]
        tail = self.tails[source.rank, source.stream] = Tail()
        gate = self._gate if source.stream == "err" else None
        feed = Feed(fd, source, screen, tail, is_file=is_file, copies=copies, gate=gate)
        self._loop.request(partial(self._follow, feed), certain=True)

    @property
    def shown(self) -> int:
        """How many bytes the consoles have taken so far."""
        return sum(screen.console.taken for screen in dict.fromkeys(self._screens))

    def say(self, line: bytes) -> None:
        """Show a line of our own, with its newline, on stderr; not within a line of a rank."""
        self._loop.request(partial(self._say, line), certain=True)

    def show(self, stream: int, block: bytes, whose: object) -> None:
        """Show a block as it is, on stdout (1) or stderr (2)."""
        self._loop.request(partial(self._pass_on, self._screens[stream - 1], block, whose))

    def take_held(self, reported: Sequence[int]) -> Mapping[int, HeldLines]:
        """Give once what the gate has held back, by rank; to be used after `drain`.

        reported: ranks whose tracebacks the report has.
        """
        gate, self._gate = self._gate, None
        if gate is None:
            return {}
        gate.count_untold(reported)
        return gate.held

    def ask(self, gate: Callable[[Gate], Iterable[tuple[Feed, bytes]] | None]) -> None:
        """Have `gate` called with the gate, if there is one; what it gives is shown."""
        if self._gate is not None:
            self._loop.request(partial(self._pass_gate, gate, self._gate))

    def hold(self, *, held: bool) -> None:
        """Keep what is to be shown, or show it; beyond `MOST_HELD` bytes, its writers wait."""
        if held and not self.over:
            self._free.clear()
        else:
            self._free.set()
            self._loop.request(self._flush)

    def _note(self, console: Console, line: bytes, seconds: float) -> None:
        console.write((b"\n" if console.midline else b"") + line, timeout=seconds)

    def finish(self, ended: Callable[[], object] | None = None) -> None:
        """Begin what `drain` does, and return at once; `drain` is still to be called.

        ended: called when everything is shown, or nobody is there to read it: from the thread, or
            at once if that has ended. For a console that does not read, this may take for ever.
        """
        self.over = True
        self._free.set()
        self._loop.request(partial(self._finish, ended), certain=True)

    def drain(self, timeout: float | None) -> bool:
        """Show everything that was written until now, and end; may be called again.

        To be called when the writers are gone. Does not wait for an end-of-file: what a process
        that still writes does later is not read. Incomplete lines are shown as lines. Takes at
        most `timeout` seconds, None for no limit, and one more if that was not enough.

        False if the console did not take everything in time: the rest is dropped, with a note on
        the console if that takes it. The tails are complete in this case, too, unless an object
        that replaced `sys.stdout` hangs in its write().
        """
        self.finish()
        try:
            self._thread.join(timeout)
        except BaseException:
            # Ctrl-C: this is the only chance to give the thread up.
            self._give_up()
            raise
        if self._thread.is_alive():
            self._give_up()
            self._thread.join(_GIVEN_UP)
        return self._clean and not self._thread.is_alive()

    def close(self) -> None:
        """End the thread and close all descriptors, within about three seconds; idempotent."""
        self.drain(_CLOSE)

    def _give_up(self) -> None:
        self._given_up.set()
        with self._lock:
            if not self._ended:
                os.eventfd_write(self._abandon, 1)

    # In the thread.

    def _run(self) -> None:
        try:
            while not self._finishing:
                self._guarded(self._round)
            self._guarded(self._drain)
        finally:
            self._close()
            if self._at_end is not None:
                self._at_end()

    def _guarded(self, call: Callable[[], None]) -> None:
        """Call this; after a fault nothing is shown, but what ranks write is read."""
        try:
            call()
        except Exception as e:
            self._loop.request(lambda: None, certain=True)  # to go on with what was asked besides
            if self.fault is None:
                self.fault = e
                for feed in self._feeds.values():
                    feed.mute()
            else:
                time.sleep(_AFTER_FAULT)  # it comes again and again

    def _close(self) -> None:
        with self._lock:
            self._ended = True
        self._opened.close()
        for feed in self._feeds.values():
            feed.close()

    def _finish(self, ended: Callable[[], object] | None) -> None:
        if not self._ended:
            self._finishing = True
            self._at_end = ended or self._at_end
        elif ended is not None:
            ended()

    def _say(self, line: bytes) -> None:
        if self._ended:
            self._note(self._screens[1].console, line, _SAY)
        else:
            self._screens[1].lines(self, b"", line)

    def _round(self) -> None:
        """Wait for news, and show what every source with news has now."""
        self._read = -1
        self._loop.turn(0.0 if self._news or self._done else None)
        files, self._news = self._news, {}
        for feed in files:
            if self._turn(feed) == BLOCK:
                self._news[feed] = None
        self._flush()
        self._look_again()
        if (files or self._read >= 0) and not self._news and self._read < _BUSY:
            pause = select.poll()
            pause.register(self._loop.own[1], select.POLLIN)
            pause.poll(_PAUSE_FILES_MS if self._read < 0 else _PAUSE_MS)

    def _look_at_files(self) -> None:
        """Turn to the files that cannot be watched, in this round and every so often."""
        if files := self._watched.get(UNWATCHED):
            self._news.update(dict.fromkeys(files))
            self._loop.after(UNWATCHED, _LOOK_AT_FILES, self._look_at_files)

    def _hear_files(self) -> None:
        assert self._inotify is not None
        found = self._inotify.read()
        for watch in self._watched if found is None else found:
            self._news.update(dict.fromkeys(self._watched.get(watch, ())))

    def _pass_gate(
        self, call: Callable[[Gate], Iterable[tuple[Feed, bytes]] | None], gate: Gate
    ) -> None:
        for feed, lines in call(gate) or ():
            feed.show(lines)

    def _look_again(self) -> None:
        """Come back when something is due that waits in the gate, or on a screen."""
        dues = [each.due for each in (self._gate, *self._screens) if each is not None]
        if found := [due for due in dues if due is not None]:
            self._loop.after(self, max(0.0, min(found) - time.monotonic()), self._give_up_waiting)

    def _give_up_waiting(self) -> None:
        if self._gate is not None:
            now = time.monotonic()
            self._pass_gate(lambda gate: gate.give_up(now), self._gate)

    def _pass_on(self, screen: Screen, block: bytes, whose: object) -> None:
        self._done.append((whose, len(block)))
        screen.pass_on(block)
        self._flush(BLOCK)

    def _follow(self, feed: Feed) -> None:
        """Begin to follow a source."""
        if self._ended:
            feed.close()
            return
        if self.fault is not None:
            feed.mute()
        self._retire(feed)
        self._feeds[feed.fd] = feed
        if feed.is_file:
            # The watch first, then the first look: nothing falls in between.
            watch = self._watch(feed)
            self._watched.setdefault(watch, []).append(feed)
            self._news[feed] = None
            if watch == UNWATCHED:
                self._loop.after(UNWATCHED, _LOOK_AT_FILES, self._look_at_files)
        else:
            self._loop.watch(feed.fd, partial(self._read_pipe, feed))

    def _read_pipe(self, pipe: Feed) -> None:
        self._read = max(self._read, self._turn(pipe))

    def _retire(self, successor: Feed) -> None:
        """Stop following the old file of a rank that has started again and has a new one."""
        key = successor.source.rank, successor.source.stream
        old = self._files.pop(key, None)
        if successor.is_file:
            self._files[key] = successor
        if old is None:
            return
        old.limit()
        while self._turn(old):
            pass
        self._news.pop(old, None)
        for feeds in self._watched.values():
            if old in feeds:
                feeds.remove(old)
        self._forget(old)

    def _watch(self, feed: Feed) -> int:
        """Watch a file; gives the watch, UNWATCHED at a limit of the machine."""
        try:
            if self._inotify is None:
                from procession.system.inotify import Inotify

                self._inotify = Inotify()
                self._opened.callback(self._inotify.close)
                self._loop.watch(self._inotify.fileno(), self._hear_files)
            # The file that was opened, even if another one has its name by now.
            return self._inotify.add(f"/proc/self/fd/{feed.fd}")
        except OSError:
            return UNWATCHED

    def _turn(self, feed: Feed) -> int:
        """Read one block of a source; gives its size. A pipe at its end is forgotten."""
        block = feed.read()
        if block:
            now = time.monotonic()
            feed.take_block(block, now)
            if feed.due is None:
                self._loop.cancel(feed)
            else:
                self._loop.after(feed, feed.due - now, partial(self._tick, feed))
            self._flush(BLOCK)
            return len(block)
        if block is not None and not feed.is_file:
            self._forget(feed)
        return 0

    def _tick(self, feed: Feed) -> None:
        """Show an incomplete line whose end has not come, also while a console was waited for."""
        now = time.monotonic()
        self._turn(feed)
        if feed.due is not None and feed.due <= now:
            feed.tick()

    def _forget(self, feed: Feed) -> None:
        self._loop.cancel(feed)
        self._loop.forget(feed.fd)
        del self._feeds[feed.fd]
        feed.end()

    def _flush(self, most: int = -1) -> None:
        """Write what waits on the consoles, if one of them has more than `most` bytes waiting."""
        if not self._free.is_set() and all(s.waiting <= MOST_HELD for s in self._screens):
            return
        self._free.wait()
        if self.fault is None:
            if all(screen.waiting <= most for screen in self._screens):
                return
            for screen in self._screens:
                self._clean = screen.flush(self._abandon) and self._clean
        if self._done and self._on_shown is not None:
            done, self._done = self._done, []
            self._on_shown(done)

    def _drain(self) -> None:
        """Show what was written until now; once given up, read only what the tails need."""
        self._loop.turn(0.0)
        if self.fault is not None:
            return
        feeds: list[Feed] = list(self._feeds.values())
        for feed in feeds:
            feed.limit()
        while feeds:
            if self._given_up.is_set():
                self._clean = False
                for feed in feeds:
                    feed.mute()
            feeds = [feed for feed in feeds if self._turn(feed)]
            self._flush()
        for feed in self._feeds.values():
            feed.end()
        if self._gate is not None:
            self._pass_gate(lambda gate: gate.give_up(None), self._gate)
        for screen in self._screens:
            if self._clean:
                screen.finish()
        self._flush()
        if not self._clean:
            for screen in dict.fromkeys(self._screens):
                self._note(screen.console, _NOTE, 0)
