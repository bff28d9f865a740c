"""The prompt of a debugger: one terminal, and the ranks of a run that have stopped."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from procession.control.ask import RunEnded
from procession.system.directories import state_directory
from procession.values.base import is_count
from procession.values.figures import fold_ranks, parse_ranks

DELIMITERS = " \t\n`@#%^&*()=+[{]}\\|;:'\",<>?"  # as pdb has them
OF_RANKS = re.compile(r"(all|\d[\d,-]*)\s+(\S.*)")
WAIT = 0.2  # seconds between two looks for Ctrl-C
SOON = 1.0  # seconds in which a rank stops that runs Python


class Talks(Protocol):
    """A way to the ranks of a run; see `Connection`."""

    @property
    def closed(self) -> bool:
        """Whether nothing will come any more."""
        ...

    def send(self, ask: str, **given: Any) -> None:
        """Ask, and do not wait."""

    def events(self, timeout: float | None = None) -> Iterable[dict[str, Any]]:
        """Give what comes within a time."""
        ...


class DebuggedRank:
    """A rank that is debugged. prompt: what it asks with, None while it does not wait for a line.

    at: where it has stopped, and why. is_new: that was not shown yet. heard: what it has printed
    since its last line.
    """

    def __init__(self) -> None:
        self.prompt: str | None = None
        self.at, self.is_new = "", False
        self.heard: list[str] = []

    def take_said(self, said: dict[str, Any]) -> None:
        """Take what it says."""
        if "stopped" in said:
            where, self.is_new = said["stopped"].get("where"), True
            self.at = f"{f' at {where}' if where else ''} ({said['stopped'].get('why')})"
        elif "out" in said:
            self.heard.append(said["out"])
        elif "ask" in said:
            self.prompt = said["ask"]

    def printed(self) -> str:
        """Give once what it has printed."""
        text, self.heard = "".join(self.heard), []
        return text


class Prompt:
    """The conversation of one terminal with the ranks of a run.

    focus: the rank whose prompt this is. asks: it waits for a line. over: it is to wait for none
    any more. stays: it waits for the next stop when none is stopped. ends: who quits ends the run;
    else the rank sees to it. look: says where a rank is that does not stop.
    """

    def __init__(
        self,
        connection: Talks,
        *,
        stays: bool,
        ends: bool = True,
        look: Callable[[int], str] = lambda _: "",
    ) -> None:
        self._connection = connection
        self._stays, self._ends = stays, ends
        self._ranks: dict[int, DebuggedRank] = {}  # those that have stopped
        self._names: list[str] | None = None
        self.asks = self.over = False
        self._joined = False
        self._look = look
        self._halted_at: float | None = None  # when a rank was asked to stop, that has not yet
        self._waits = False  # that was said
        self.focus: int | None = None

    def halt(self, rank: int) -> None:
        """Ask a rank to stop at its next line."""
        self.focus, self._halted_at, self._waits = rank, time.monotonic(), False
        self._connection.send("halt", rank=rank)

    def run(self) -> None:
        """Talk until the person leaves, or nothing is stopped any more. Raises RunEnded."""
        while True:
            if not self._await(lambda: any(r.prompt is not None for r in self._ranks.values())):
                return
            while self._hear_next(0.0):
                pass
            waiting = [n for n, rank in self._ranks.items() if rank.prompt is not None]
            if not waiting:
                continue
            if self.focus not in waiting:
                self.focus = waiting[0]
            rank = self._ranks[self.focus]
            self._show(self.focus)
            if self._is_left(self.focus, rank):
                return

    # -- hearing

    def _await(self, come: Callable[[], bool]) -> bool:
        """Take what ranks say until something has come; False where nobody is to wait for it."""
        while not come():
            if self._joined and not self._stays and not self._ranks:
                return False
            try:
                self._hear_next(WAIT)
                self._say_where()
            except KeyboardInterrupt:
                if self.focus is None or self._halted_at is not None:
                    return False
                self.halt(self.focus)
        return True

    def _say_where(self) -> None:
        """Say once where a rank is that does not stop: in native code, for example."""
        at = self._halted_at
        if at is None or time.monotonic() < at + SOON:
            return
        self._halted_at = time.monotonic()
        self._connection.send("halt", rank=self.focus, again=True)  # it may have just begun
        if not self._waits:
            self._waits = True
            now = self._look(self.focus or 0)
            print(f"rank {self.focus} stops at its next line of Python; now\n{now}")

    def _hear_next(self, seconds: float) -> bool:
        """Take the next thing that is said; False if nothing is said in time."""
        for said in self._connection.events(seconds):
            if said.get("event") == "debug":
                self._take_said(said["rank"], said["said"])
                return True
        if self._connection.closed:
            raise RunEnded("it has ended")
        return False

    def _take_said(self, number: int, said: dict[str, Any]) -> None:
        if "joined" in said:
            self._joined = True
        elif "names" in said:
            self._names = said["names"]
        elif "goes_on" in said or "gone" in said:
            rank = self._ranks.pop(number, None)
            if rank is not None and number == self.focus:
                sys.stdout.write(rank.printed())
            if "gone" in said and rank is not None:
                print(f"rank {number} has ended")
        else:
            self._halted_at = None
            self._ranks.setdefault(number, DebuggedRank()).take_said(said)

    # -- the prompt

    def _show(self, number: int) -> None:
        """Show what a rank has printed, and where it is if it has just stopped."""
        rank = self._ranks[number]
        if rank.is_new:
            print(f"rank {number} stopped{rank.at}")
            rank.is_new = False
        sys.stdout.write(rank.printed())
        sys.stdout.flush()

    def _is_left(self, number: int, rank: DebuggedRank) -> bool:
        """Ask for a line and obey it; gives whether the person leaves."""
        try:
            line = self._input(f"[{number}] {rank.prompt}")
        except KeyboardInterrupt:
            print("\n--KeyboardInterrupt--")
            return False
        except EOFError:
            print()
            if "(Pdb)" not in (rank.prompt or ""):  # of `interact`, for example
                self._obey([number], None)
                return False
            line = "q" if sys.stdin.isatty() else "detach"
        word = line.strip()
        if word == "ranks":
            for each, stopped in sorted(self._ranks.items()):
                does = "waits" if stopped.prompt is not None else "runs"
                print(f"{'*' if each == number else ' '} rank {each}: {does}{stopped.at}")
        elif word == "rank" or word.startswith("rank "):
            chosen = word[5:].strip()
            if is_count(chosen) and int(chosen) in self._ranks:
                self.focus = int(chosen)
            else:
                print(f"rank {chosen} has not stopped; type ranks for a list")
        elif word == "detach":
            self._obey([*self._ranks], "c", wait=False)
            return True
        elif word in ("q", "quit", "exit"):
            if self._ends and "(post-mortem" not in rank.at:
                return self._is_ended()
            self._obey([number], "q")
        elif asked := OF_RANKS.fullmatch(word):
            if asked[2] in ("q", "quit", "exit", "EOF") and self._ends:
                return self._is_ended()
            self._all(asked[1], asked[2])
        else:
            self._obey([number], line)
        return False

    def _input(self, prompt: str) -> str:
        self.asks = True
        try:
            if self.over:  # that was said just before
                raise RunEnded("it has ended")
            return input(prompt)
        finally:
            self.asks = False

    def _is_ended(self) -> bool:
        try:
            sure = self._input("end the whole run? [y/N] ").strip().lower() in ("y", "yes")
        except (KeyboardInterrupt, EOFError):
            print()
            return False
        if sure:
            self._connection.send("stop", who="its debugger")
        return sure

    def _obey(self, numbers: Sequence[int], line: str | None, *, wait: bool = True) -> list[int]:
        """Have ranks that wait for a line obey, and wait until they have; gives which have."""
        asked = [n for n in numbers if n in self._ranks and self._ranks[n].prompt is not None]
        for number in asked:
            self._ranks[number].prompt = None
            said = {"end": True} if line is None else {"line": line}
            self._connection.send("tell", rank=number, said=said)
        if wait:
            self._await(lambda: all(self._is_back(n) for n in asked))
        return asked

    def _is_back(self, number: int) -> bool:
        return number not in self._ranks or self._ranks[number].prompt is not None

    def _all(self, which: str, line: str) -> None:
        """Have several ranks obey, and show equal answers once."""
        try:
            numbers = sorted(self._ranks) if which == "all" else sorted(parse_ranks(which))
        except ValueError as e:
            print(str(e))
            return
        if missing := [n for n in numbers if n not in self._ranks]:
            print(f"not stopped: {fold_ranks(missing)}")
        before = {n: len(rank.heard) for n, rank in self._ranks.items()}  # why it stopped
        answers: dict[str, list[int]] = {}
        for number in self._obey(numbers, line):
            rank, text = self._ranks.get(number), ""
            if rank is not None:
                text = "".join(rank.heard[before[number] :])
                del rank.heard[before[number] :]
            answers.setdefault(text.rstrip("\n"), []).append(number)
        for text, ranks in answers.items():
            if text:
                print(f"[{fold_ranks(ranks)}] {text}")

    def complete(self, line: str, begin: int, end: int) -> list[str]:
        """Give what could stand between two places of a line."""
        number = self.focus
        if number is None or number not in self._ranks:
            return []
        asked = OF_RANKS.fullmatch(line)
        shift = asked.start(2) if asked else 0
        ours = [w for w in ("ranks", "rank", "all", "detach") if not begin and w.startswith(line)]
        self._names = None
        asked_for = [line[shift:], max(0, begin - shift), max(0, end - shift)]
        self._connection.send("tell", rank=number, said={"complete": asked_for})
        self._await(lambda: self._names is not None)
        return [*ours, *(self._names or [])]


@contextmanager
def edited(complete: Callable[[str, int, int], list[str]]) -> Generator[None]:
    """Have line editing, with a history that stays, where this is a terminal."""
    readline: Any = None
    if sys.stdin.isatty():
        with suppress(ImportError):
            readline = __import__("readline")
    if readline is None:
        yield
        return
    found: list[str] = []

    def complete_next(_text: str, state: int) -> str | None:
        if state == 0:
            line = readline.get_line_buffer()
            found[:] = complete(line, readline.get_begidx(), readline.get_endidx())
        return found[state] if state < len(found) else None

    readline.set_completer(complete_next)
    readline.set_completer_delims(DELIMITERS)
    readline.parse_and_bind("tab: complete")
    path = os.path.join(state_directory(), "debug_history")
    with suppress(OSError):  # there is none yet
        readline.read_history_file(path)
    try:
        yield
    finally:
        readline.set_completer(None)
        readline.set_history_length(1000)
        with suppress(OSError):  # it cannot be kept
            os.makedirs(os.path.dirname(path), exist_ok=True)
            readline.write_history_file(path)
