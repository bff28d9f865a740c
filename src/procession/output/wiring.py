"""Where the output of a group goes: a route and a prefix by rank, its files, and its streams.

The three standard streams of each rank are opened by its route, and what is to be shown is shown:
ranks of this machine are followed, blocks of other machines come ready to be shown.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from procession.output.rundir import RunFiles, directory_name
from procession.system.files import leads_to
from procession.values.base import Record, Value
from procession.values.environment import given_run_id
from procession.values.figures import LONGEST_RANKS, fold_ranks
from procession.values.policy import Route

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from procession.output.console import Console
    from procession.output.feed import Source
    from procession.output.follow import Follower
    from procession.output.gate import Gate, HeldLines
    from procession.output.recent import Recent
    from procession.output.screen import Screen
    from procession.output.text import Tail
    from procession.values.spec import Spec


class Shows(Value):
    """What of the output of ranks is shown, and how; see `Logs`.

    prefix_of: gives what stands before a line that several ranks have written.
    """

    all_output: bool = True
    fold: bool | Literal["numbers"] | None = False
    prefix_of: Callable[[Sequence[int]], bytes] = lambda _: b""


class Display:
    """Two consoles, and the follower that shows on them what is to be shown.

    prefixes: what stands before the lines of each rank. shows: what is shown, and how. tails: by
        rank and stream, what was read last in this attempt. recent: what was shown last, after
        `tap`, None where ranks write past this process.
    on_quiet: to be set before ranks are started; called once, in the thread that shows their
        output, when the reader of our standard output is found to have gone.
    on_shown: to be set before `show` is used; see `Follower`.
    """

    on_quiet: Callable[[], None] | None = None
    on_shown: Callable[[list[tuple[object, int]]], None] | None = None
    recent: Recent | None = None
    _consoles: tuple[Console, Console] | None = None
    _lent = False  # the consoles are the caller's
    _closed = False
    _fault: Exception | None = None  # of an earlier follower
    _follower: Follower | None = None

    def __init__(self, prefixes: Sequence[str], shows: Shows | None = None) -> None:
        self.prefixes = prefixes
        self.tails: dict[tuple[int, str], Tail] = {}
        self._shows = shows or Shows()

    def open_consoles(self) -> None:
        """Show both streams. In the thread that wrote there before: it flushes what waits there."""
        from procession.output.console import Console

        self._consoles = Console(sys.stdout, self._went_quiet), Console(sys.stderr)

    def _went_quiet(self) -> None:
        if self.on_quiet is not None:
            self.on_quiet()

    def get_follower(self) -> Follower:
        """Give what shows output now; started by the first call. Raises OSError."""
        if self._consoles is None or self._closed:
            raise OSError(errno.ESHUTDOWN, "the group is over")
        if self._follower is None or self._follower.over:
            from procession.output.follow import Follower

            if self._follower is not None:
                self._fault = self._fault or self._follower.fault
            gate: Gate | None = None
            if not self._shows.all_output:
                from procession.output.gate import Gate

                gate = Gate()
            self._follower = Follower(
                *self._consoles, on_shown=self.on_shown, gate=gate, screen_of=self._screen
            )
            self.tails = self._follower.tails
        return self._follower

    def _screen(self, console: Console) -> Screen:
        fold, count = self._shows.fold, len(self.prefixes)
        if count < 2 or not (console.terminal if fold is None else fold):
            from procession.output.screen import Screen

            return Screen(console)
        from procession.output.fold import Fold
        from procession.output.folding import FoldingScreen

        lines, of = Fold(count, numbers=fold == "numbers"), self._shows.prefix_of
        return FoldingScreen(console, lines, of, in_place=console.terminal and not self._lent)

    def hold(self, *, held: bool) -> None:
        """Show nothing for now, or go on: the terminal is used for something else."""
        if self._follower is not None:
            self._follower.hold(held=held)

    def hold_back(self, failed: int | None) -> None:
        """Show no more of ranks, but of one that has failed, since the group is being ended."""
        if self._follower is not None:
            self._follower.ask(lambda gate: gate.close([] if failed is None else [failed]))

    def tell(self, rank: int, traceback: str) -> None:
        """Say what the report will have of a rank that has failed; see `Gate.tell`."""
        if self._follower is not None:
            self._follower.ask(lambda gate: gate.tell(rank, traceback))

    def release(self, ranks: Sequence[int]) -> None:
        """Show what was held back of ranks that failed by themselves at the same time."""
        if self._follower is not None:
            self._follower.ask(lambda gate: gate.release(ranks, time.monotonic()))

    def take_held(self, reported: Sequence[int]) -> Mapping[int, HeldLines]:
        """Give once what was held back, by rank; when everything else is shown.

        reported: ranks whose tracebacks the report has.
        """
        return {} if self._follower is None else self._follower.take_held(reported)

    def say(self, line: bytes) -> None:
        """Show a line of our own, with its newline, on stderr; not within a line of a rank."""
        if self._follower is not None:
            self._follower.say(line)
        elif self._consoles is not None:
            self._consoles[1].write(line, timeout=1.0)
        else:
            from procession.output.console import Console

            console = Console(sys.stderr)
            console.write(line, timeout=1.0)
            console.close()

    def tap(self) -> None:
        """Keep what is shown last in `recent`, for other terminals; not what ranks write directly.

        To be used before ranks are started.
        """
        if self._consoles is not None:
            from procession.output.recent import Recent

            self.recent = Recent()
            # If both are one console, all that it shows is of stdout.
            for console, stream in zip(self._consoles[::-1], ("err", "out"), strict=True):
                console.seen_by = partial(self.recent.add, stream=stream)

    def finish(self, ended: Callable[[], object]) -> None:
        """Begin to show what is still to be shown; see `Follower.finish`."""
        if self._follower is None:
            ended()
        else:
            self._follower.finish(ended)

    @property
    def shown(self) -> int:
        """How many bytes the consoles have taken so far."""
        return 0 if self._follower is None else self._follower.shown

    def drain(self, timeout: float | None) -> bool:
        """Show what is still to be shown; False if it was cut off. See `Follower.drain`."""
        return self._follower is None or self._follower.drain(timeout)

    @property
    def faults(self) -> list[str]:
        """What of the output was lost on our own streams, and why; also when all is closed."""
        if self._consoles is None:
            return []
        found = [
            f"output of ranks is lost: the standard {name} did not take all ({console.fault}) "
            "[P407]"
            for console, name in zip(self._consoles, ("output", "error"), strict=True)
            if console.fault
        ]
        fault = self._fault or (self._follower.fault if self._follower is not None else None)
        if fault is not None:
            said = f"an error in procession's own thread for it ({type(fault).__name__}: {fault})"
            found.append(f"the output of the ranks was not shown to its end: {said} [P407]")
        return found

    def _close_consoles(self) -> None:
        if not self._lent:
            for console in self._consoles or ():
                console.close()

    def close(self) -> None:
        """Close everything."""
        self._closed = True
        if self._follower is not None:
            self._follower.close()
        self._close_consoles()


class Streams(Record):
    """Standard input, output and error of one rank; `opened` are to be closed when it has them."""

    fds: list[int]
    opened: list[int]

    def drop(self) -> None:
        """Close what was opened, for a rank that does not start."""
        for fd in self.opened:
            os.close(fd)
        self.opened = []


class Wiring(Display):
    """Opens the streams of a group's ranks, and shows on the console what is to be shown.

    files: those of the run. in_files: whether they get any of it.
    """

    def __init__(self, output: Output, stdin: int | None) -> None:
        super().__init__(output.prefixes, output.shows)
        own = leads_to(sys.stdout, 1), leads_to(sys.stderr, 2)
        self._routes = [(_shown(out, own[0]), _shown(err, own[1])) for out, err in output.routes]
        self._stdin = stdin
        self.in_files = any(r in (Route.FILE, Route.TEE) for pair in self._routes for r in pair)
        self.files = output.files
        self._duplicates = output.duplicates
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        if any(route in (Route.PREFIX, Route.TEE) for pair in self._routes for route in pair):
            try:
                self.open_consoles()  # there may be no descriptor to import with
            except BaseException:
                os.close(self._null)
                raise

    def lead_through(self, console: Console | None = None) -> None:
        """Lead what ranks would write to our own streams directly through here, line by line.

        To be used before ranks are started. console: shows both streams, and stays the caller's.
        """
        self._routes = [(_shown(out, False), _shown(err, False)) for out, err in self._routes]
        if console is not None:
            self._close_consoles()
            self._consoles, self._lent = (console, console), True
        elif self._consoles is None:
            self.open_consoles()

    def open(self, attempt: int, rank: int) -> Streams:
        """Open stdin, stdout and stderr of a rank; in any thread. Raises OSError."""
        opened: list[int] = []
        try:
            self.files.make_rank_dir(attempt, rank)
            fds = [self._input() if rank == self._stdin else self._null]
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
                    opened.append(self.files.open_log(attempt, rank, stream))
                    fds.append(opened[-1])
                    if route is Route.TEE:
                        self._tee(attempt, rank, stream)
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        return Streams(fds, opened)

    def _input(self) -> int:
        """Give our standard input, unless it is our terminal and we are in its background.

        There, the shell reads it. The kernel would stop us at a read, but no rank: a rank is in a
        session of its own.
        """
        try:
            background = os.tcgetpgrp(0) != os.getpgrp()
        except OSError:  # not our terminal, or none
            background = False
        return self._null if background else self._launchers(0)

    def _launchers(self, number: int) -> int:
        try:
            os.fstat(number)
        except OSError:  # the launcher runs without it
            return self._null
        return number

    def _pipe(self, rank: int, stream: str, opened: list[int]) -> int:
        follower, source = self.get_follower(), self._source(rank, stream)
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        opened.append(write_end)
        follower.add_pipe(read_end, source)
        return write_end

    def _tee(self, attempt: int, rank: int, stream: str) -> None:
        """Follow the file of a stream."""
        source, copies = self._source(rank, stream), None
        texts = self._duplicates[stream == "stderr"]
        if texts:
            from procession.output.feed import Copies

            filtered = self.files.filtered_file(attempt, stream)
            copies = Copies(filtered, source.prefix, texts)
        path = self.files.log_file(attempt, rank, stream)
        self.get_follower().add_file(path, source, copies=copies)

    def _source(self, rank: int, stream: str) -> Source:
        from procession.output.feed import Source

        colour = rank if len(self._routes) > 1 else None
        prefix = self.prefixes[rank].encode()
        return Source(rank, "out" if stream == "stdout" else "err", prefix, colour)

    def read_of(self, rank: int) -> list[Tail]:
        """Give those of a rank's streams of which we have read something."""
        found = (self.tails.get((rank, stream)) for stream in ("out", "err"))
        return [tail for tail in found if tail is not None and tail.fed_at]

    def last_line(self, attempt: int, rank: int) -> bytes:
        """Give the line that a rank wrote last, as far as we read it or its file has it."""
        read = self.read_of(rank)
        if read:
            return max(read, key=lambda tail: tail.fed_at).last()
        from procession.output.rankfiles import end_of
        from procession.output.text import LINE, last_line

        ends = [end_of(path, LINE) for path in self.files.log_files(attempt, rank) if path]
        return last_line(max(ends, default=(0.0, b""))[1])

    def close(self) -> None:
        """Close everything."""
        super().close()
        if self._null >= 0:
            os.close(self._null)
            self._null = -1


def _shown(route: Route, own: bool) -> Route:
    """Lead a stream through us if `sys.stdout` is not (any more) the descriptor that ranks have."""
    return Route.PREFIX if route is Route.INHERIT and not own else route


class Output(Value):
    """Routes of stdout and stderr, and the prefix of lines on the console, by rank; the files.

    duplicates: texts of stdout and of stderr: what lines hold that are copied to their own file.
    shows: what of it is shown, and how.
    """

    routes: list[tuple[Route, Route]]
    prefixes: list[str]
    files: RunFiles
    duplicates: tuple[Sequence[str], Sequence[str]] = ((), ())
    shows: Shows = Shows()


def prefixes_of(spec: Spec) -> list[str]:
    """Give what stands before the lines of each rank of a group."""
    node, nproc = spec.node, spec.nproc
    template, first = spec.logs.template(nproc) or "", node.first(nproc)
    fields = _fields_of(spec, template)
    numbers = [(first + rank, node.local + rank) for rank in range(nproc)]
    return [template.format(rank=r, local_rank=local, **fields) for r, local in numbers]


def _fields_of(spec: Spec, template: str) -> dict[str, Any]:
    """Give the fields of a prefix that are the same for all ranks."""
    return {
        "width": len(str(spec.node.size(spec.nproc) - 1)),
        "name": spec.name,
        "node": spec.node.rank,
        "host": os.uname().nodename if "{host" in template else "",
    }


def _shows(spec: Spec) -> Shows:
    """Say what is shown. Lines of several ranks need a prefix that can name them."""
    template, first = spec.logs.template(spec.nproc) or "", spec.node.first(spec.nproc)
    fold = spec.logs.fold if spec.logs.names_several(spec.nproc) else False
    fields = {} if fold is False else _fields_of(spec, template)

    def prefix_of(ranks: Sequence[int]) -> bytes:
        text = fold_ranks(first + rank for rank in ranks)
        text = text if len(text) <= LONGEST_RANKS else f"{len(ranks)} ranks"
        return template.format(rank=text, local_rank="", **fields).encode()

    return Shows(spec.logs.all_output, fold, prefix_of)


def output_of(spec: Spec, place: str = "") -> Output:
    """Plan the output of a group by its `Logs`, and make its directory. Raises OSError.

    place: the directory, where the group is one attempt of a job that others start again; "": a new
    one.
    """
    logs, node = spec.logs, spec.node
    name = directory_name(node.run_id or given_run_id(os.environ) or spec.name, os.environ)
    files = RunFiles(logs, spec.nproc, name, place, node.attempt)
    texts = logs.duplicate_stdout, logs.duplicate_stderr
    return Output(logs.route(spec.nproc), prefixes_of(spec), files, texts, _shows(spec))
