"""Follows growing log files, and shows them with a prefix before each line."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TextIO

from procession.output.console import Console
from procession.output.feed import Source
from procession.output.follow import Follower

__all__ = ["TailLog", "tail_logfile"]

logger = logging.getLogger(__name__)

SLOW_READER = 30.0  # seconds that `stop` gives a destination to take what is still to be shown


class TailLog:
    """Shows the lines of growing files, each with its file's prefix, as they are written.

    name: stands in the prefix, `[{name}{key}]:`. log_files: paths by key, usually by rank; a file
        that does not exist yet is waited for.
    dst: an object like `sys.stdout`; None: nothing is done. It is not closed.
    log_line_prefixes: by key, instead of that prefix.
    interval_sec: seconds between two looks for files that do not exist yet; what is written to
        those that do is seen without looking.
    log_line_filter: called with each line, its newline included; only those for which it returns
        true are shown. The lines for which it raises are not shown, which is logged.

    The beginning of a line whose end does not come is shown after a short time, unless there is a
    filter. Two files' lines never mix.
    """

    _console: Console  # while there is a follower

    def __init__(
        self,
        name: str,
        log_files: Mapping[int, str],
        dst: TextIO | None,
        log_line_prefixes: Mapping[int, str] | None = None,
        interval_sec: float = 0.1,
        log_line_filter: Callable[[str], bool] | None = None,
    ) -> None:
        self._name = name
        self._dst = dst
        self._prefixes = log_line_prefixes or {}
        self._interval = interval_sec
        self._filter = log_line_filter
        self._missing = dict(log_files)
        self._follower: Follower | None = None
        self._stopping = threading.Event()
        self._searcher: threading.Thread | None = None

    def start(self) -> TailLog:
        """Begin to show what the files hold; returns itself."""
        if not self._missing or not self._dst:
            return self
        self._console = Console(self._dst)
        self._follower = follower = Follower(self._console, self._console)
        self._find_files(follower)
        if self._missing:
            name = f"procession-tail-{self._name}"
            self._searcher = threading.Thread(
                target=self._search, args=(follower,), name=name, daemon=True
            )
            self._searcher.start()
        return self

    def stop(self) -> None:
        """Show what was written until now, and end.

        Returns within 30 seconds, or as long as `dst` itself blocks in its `write`.
        """
        self._stopping.set()
        if self._searcher is not None:
            self._searcher.join()
        if self._follower is not None:
            self._find_files(self._follower)
            self._follower.drain(SLOW_READER)
            self._console.close()
            self._follower = None

    def stopped(self) -> bool:
        """Whether `stop` has been called, and has returned."""
        return self._stopping.is_set() and self._follower is None

    def _search(self, follower: Follower) -> None:
        while self._missing and not self._stopping.wait(self._interval):
            self._find_files(follower)

    def _find_files(self, follower: Follower) -> None:
        """Follow those of the missing files that are there by now."""
        for key, path in list(self._missing.items()):
            try:
                prefix = self._prefixes.get(key, f"[{self._name}{key}]:")
                keep = _never_raising(self._filter, prefix) if self._filter else None
                follower.add_file(path, Source(key, "out", prefix.encode(), keep=keep))
            except FileNotFoundError:
                continue
            except OSError as e:
                logger.exception("%s%s is not followed: %s", self._name, key, e)
            del self._missing[key]


def _never_raising(wanted: Callable[[str], bool], whose: str) -> Callable[[bytes], bool]:
    """Give a filter of text as one of bytes, which logs what it raises."""

    def keep(line: bytes) -> bool:
        try:
            return bool(wanted(line.decode(errors="replace")))
        except Exception:
            logger.exception("the filter of the lines of %s raised", whose)
            return False

    return keep


def tail_logfile(
    header: str,
    file: str,
    dst: TextIO,
    finished: threading.Event,
    interval_sec: float,
    log_line_filter: Callable[[str], bool] | None = None,
) -> None:
    """Show the lines of one growing file until `finished` is set, and what it holds then.

    header: stands before each line. The others are those of `TailLog`; None as the filter shows
    every line.
    """
    tail = TailLog("", {0: file}, dst, {0: header}, interval_sec, log_line_filter).start()
    finished.wait()
    tail.stop()
