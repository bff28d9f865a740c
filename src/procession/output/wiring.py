"""The three standard streams of each rank: where they come from and go to, by its route."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial

from procession.output.console import Console, leads_to
from procession.output.plan import Output
from procession.output.rundir import open_regular
from procession.policy import Route

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.output.feed import Source
    from procession.output.follow import Follower
    from procession.output.recent import Recent

TAIL_LINES = 20
TAIL_BYTES = 1 << 16
LINE_BYTES = 1000


class Wiring:
    """Opens the streams of a group's ranks, and shows on the console what is to be shown.

    prefixes: what stands before the lines of each rank.
    on_quiet: to be set before ranks are started; called once, in the thread that shows their
        output, when the reader of our standard output is found to have gone.
    """

    def __init__(self, output: Output, stdin: int | None) -> None:
        self.on_quiet: Callable[[], None] | None = None
        own = leads_to(sys.stdout, 1), leads_to(sys.stderr, 2)
        self._routes = [(_shown(out, own[0]), _shown(err, own[1])) for out, err in output.routes]
        self.prefixes = output.prefixes
        self._stdin = stdin
        self._run = output.files
        self._duplicates = output.duplicates
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._consoles: tuple[Console, Console] | None = None
        if any(route in (Route.PREFIX, Route.TEE) for pair in self._routes for route in pair):
            # In this thread, which wrote there before: it flushes what is still on its way.
            self._consoles = Console(sys.stdout, self._went_quiet), Console(sys.stderr)
        self._lent = self._tapped = False
        self.recent: Recent | None = None
        self._follower: Follower | None = None

    def lead_through(self, console: Console | None = None) -> None:
        """Have all that would go to our own streams directly come through here, for its lines.

        To be used before ranks are started. console: shows both streams, and stays the caller's.
        """
        self._routes = [(_shown(out, False), _shown(err, False)) for out, err in self._routes]
        if console is not None:
            self._close_consoles()
            self._consoles, self._lent = (console, console), True
        elif self._consoles is None:
            self._consoles = Console(sys.stdout, self._went_quiet), Console(sys.stderr)
        if self._tapped:
            self._keep_recent()

    def say(self, line: bytes) -> None:
        """Show a line of our own, with its newline, on stderr; not within a line of a rank."""
        if self._follower is not None:
            self._follower.say(line)
        elif self._consoles is not None:
            self._consoles[1].write(line, timeout=1.0)

    def tap(self) -> None:
        """Keep what is shown last for others to see, in `recent`, unless ranks write past us.

        To be used before ranks are started.
        """
        self._tapped = True
        self._keep_recent()

    def _keep_recent(self) -> None:
        if self._consoles is None:
            return
        from procession.output.recent import Recent

        self.recent = self.recent or Recent()
        out, err = self._consoles
        err.seen_by = partial(self.recent.add, stream="err")
        out.seen_by = partial(self.recent.add, stream="out")  # also if both are one

    def open(self, attempt: int, rank: int) -> tuple[list[int], list[int]]:
        """Open stdin, stdout and stderr of a rank; also which of them to close when it has them.

        Raises OSError.
        """
        opened: list[int] = []
        try:
            self._run.make_rank_dir(attempt, rank)
            fds = [self._launchers(0) if rank == self._stdin else self._null]
            for number, (stream, route) in enumerate(
                zip(("stdout", "stderr"), self._routes[rank], strict=True), start=1
            ):
                if route is Route.INHERIT:
                    fds.append(self._launchers(number))
                elif route is Route.DROP:
                    fds.append(self._null)
                elif route is Route.PREFIX:
                    fds.append(self._pipe(rank, stream, opened))
                else:
                    fds.append(self._file(attempt, rank, stream, route, opened))
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        return fds, opened

    def _launchers(self, number: int) -> int:
        try:
            os.fstat(number)
        except OSError:  # the launcher runs without it
            return self._null
        return number

    def _pipe(self, rank: int, stream: str, opened: list[int]) -> int:
        follower, source = self._follow(), self._source(rank, stream)
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        opened.append(write_end)
        follower.add_pipe(read_end, source)
        return write_end

    def _file(self, attempt: int, rank: int, stream: str, route: Route, opened: list[int]) -> int:
        fd = self._run.open_log(attempt, rank, stream)
        opened.append(fd)
        if route is Route.TEE:
            path = self._run.log_file(attempt, rank, stream)
            source = self._source(rank, stream)
            self._follow().add_file(path, source)
            if self._duplicates is not None:
                self._duplicates.follow(attempt, stream, path, source)
        return fd

    def _source(self, rank: int, stream: str) -> Source:
        from procession.output.feed import Source

        return Source(
            rank=rank,
            stream="out" if stream == "stdout" else "err",
            prefix=self.prefixes[rank].encode(),
            colour=rank if len(self._routes) > 1 else None,
        )

    def _follow(self) -> Follower:
        if self._follower is None:
            from procession.output.follow import Follower

            assert self._consoles is not None
            self._follower = Follower(*self._consoles)
        return self._follower

    def _went_quiet(self) -> None:
        if self.on_quiet is not None:
            self.on_quiet()

    def finish(self, ended: Callable[[], None]) -> None:
        """Begin to show what is still to be shown; see `Follower.finish`."""
        if self._follower is None:
            ended()
        else:
            self._follower.finish(ended)

    def drain(self, timeout: float) -> bool:
        """Show what is still to be shown, within `timeout` seconds; False if it was cut off."""
        if self._duplicates is not None:
            self._duplicates.drain(timeout)
        return self._follower is None or self._follower.drain(timeout)

    def log_paths(self, attempt: int, rank: int) -> tuple[str, str]:
        """Give the log files of a rank's stdout and stderr, "" where there is none."""
        out, err = (
            self._run.log_file(attempt, rank, stream) if route in (Route.FILE, Route.TEE) else ""
            for stream, route in zip(("stdout", "stderr"), self._routes[rank], strict=True)
        )
        return out, err

    def last_read(self, rank: int) -> int:
        """Give when we last read what a rank wrote, in ns of the monotonic clock; 0: never."""
        return 0 if self._follower is None else self._follower.last_read(rank)

    def stderr_tail(self, attempt: int, rank: int) -> tuple[str, ...]:
        """Give the last lines of a rank's stderr, as far as they passed or lie in its file."""
        route = self._routes[rank][1]
        if route in (Route.FILE, Route.TEE):
            return _last_lines(self._run.log_file(attempt, rank, "stderr"))
        if route is Route.PREFIX and self._follower is not None:
            return tuple(self._follower.tail(rank, "err"))
        return ()

    def last_line(self, attempt: int, rank: int) -> bytes:
        """Give the line that a rank wrote last, as far as it passes or lies in a file of ours."""
        passed = b"" if self._follower is None else self._follower.last_line(rank)
        if passed:
            return passed
        ends: list[tuple[float, bytes]] = []
        for path in self.log_paths(attempt, rank):
            end = _end_of(path) if path else None
            if end is not None and end[1]:
                ends.append(end)
        return max(ends)[1] if ends else b""

    def _close_consoles(self) -> None:
        if not self._lent:
            for console in self._consoles or ():
                console.close()
        self._consoles = None

    def close(self) -> None:
        """Close everything."""
        if self._duplicates is not None:
            self._duplicates.close()
        if self._follower is not None:
            self._follower.close()
            self._follower = None
        self._close_consoles()
        if self._null >= 0:
            os.close(self._null)
            self._null = -1


def _shown(route: Route, own: bool) -> Route:
    """Lead a stream through us if `sys.stdout` is not (any more) the descriptor that ranks have."""
    return Route.PREFIX if route is Route.INHERIT and not own else route


def _end_of(path: str) -> tuple[float, bytes] | None:
    """Give when a file was written to, and its last line; None for one that cannot be read."""
    from procession.output.tail import last_line

    try:
        with open_regular(path) as f:
            size = f.seek(0, os.SEEK_END)
            f.seek(max(0, size - LINE_BYTES))
            return os.fstat(f.fileno()).st_mtime, last_line(f.read(LINE_BYTES), LINE_BYTES)
    except OSError:
        return None


def _last_lines(path: str) -> tuple[str, ...]:
    try:
        with open_regular(path) as f:
            size = f.seek(0, os.SEEK_END)
            f.seek(max(0, size - TAIL_BYTES))
            text = f.read(TAIL_BYTES)
    except OSError:
        return ()
    lines = text.decode(errors="replace").split("\n")
    if size > TAIL_BYTES and len(lines) > 1:
        del lines[0]
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    while shown and not shown[-1].strip():
        shown.pop()
    return tuple(shown[-TAIL_LINES:])
