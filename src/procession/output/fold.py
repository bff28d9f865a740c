"""Equal lines of several ranks as one: which lines are together, and when they are shown. Pure.

Theory of operation. What ranks have written, and is not shown yet, is one list of *stretches*: some
whole lines, and the ranks that have written them. A rank stands behind the last stretch that it has
a part in. What it writes next is looked for behind that place: if the same lines stand there, it
joins them; what it alone has written before them is put in before them, and what is found nowhere
comes last. So the lines of each rank stay in their order, and those of another rank stand where
they meet. A line is looked for by itself only where a stretch as a whole is not the same: ranks
that write the same cost a comparison of memory each, and not one of lines.

The list is shown from its beginning, up to the last stretch that need not wait any longer: one that
all ranks have written, before which nobody can join anything either; one that has waited for
`ALONE`, or for `TOGETHER` where several ranks have written it.

With numbers, lines that differ in numbers only are equal, and the smallest and the largest of each
are shown.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from itertools import groupby, pairwise

ALONE, TOGETHER = 0.04, 0.25  # seconds from when the first rank wrote it
MOST = 1 << 20  # bytes that wait; beyond, all is shown
MOST_STRETCHES = 2000
CLOSE = 1e-6  # from one place in the list to the next: no room for many between them

_NUMBER = re.compile(rb"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w)")
_HERE = b"\0"  # in place of a number
_TO = " … ".encode()


class _Stretch:
    """Some lines, each with its newline, who has written them, and since when.

    place: stretches stand in the order of these. ranges: with numbers, the smallest and the largest
    of each number, line by line.
    """

    def __init__(self, place: float, lines: list[bytes], ranks: set[int], since: float) -> None:
        self.place = place
        self.lines = lines
        self.text = b"".join(lines)
        self.ranks = ranks
        self.since = since
        self.ranges: list[list[tuple[bytes, bytes]]] = []

    def due(self, nproc: int) -> float:
        """Give when it is to be shown."""
        if len(self.ranks) >= nproc:
            return 0.0
        return self.since + (ALONE if len(self.ranks) == 1 else TOGETHER)

    def written(self) -> bytes:
        """Give its lines, with ranges where numbers differ."""
        if not self.ranges:
            return self.text
        found: list[bytes] = []
        for line, ranges in zip(self.lines, self.ranges, strict=True):
            first, *others = line.split(_HERE) if ranges else [line]
            numbers = (low if low == high else low + _TO + high for low, high in ranges)
            found += [first, *(n + text for n, text in zip(numbers, others, strict=True))]
        return b"".join(found)


def _place(stretch: _Stretch) -> float:
    return stretch.place


class Fold:
    """Puts lines of ranks together. numbers: also those that differ in numbers. nproc: of ranks.

    crowded: too much waits, and is to be shown at once.
    """

    def __init__(self, nproc: int, *, numbers: bool = False) -> None:
        self._nproc = nproc
        self._numbers = numbers
        self._list: list[_Stretch] = []
        self._having: dict[bytes, list[_Stretch]] = {}  # by line
        self._behind: dict[int, float] = {}  # by rank: the place of the last one it has a part in
        self._shown = 0.0  # the place of the last one that was shown
        self._waiting = 0  # bytes
        self.crowded = False

    def add(self, rank: int, text: bytes, now: float) -> None:
        """Take whole lines of a rank. now: in seconds, as in all calls."""
        text = text if self._numbers else self._join(rank, text)
        if text:
            self._sort_in(rank, text.splitlines(keepends=True), now)
        crowded = self._waiting > MOST or len(self._list) > MOST_STRETCHES
        self.crowded = self.crowded or crowded

    @property
    def due(self) -> float | None:
        """When something is to be shown; None while nothing waits."""
        if not self._list:
            return None
        return 0.0 if self.crowded else min(each.due(self._nproc) for each in self._list)

    def take_due(self, now: float | None) -> list[tuple[list[int], bytes]]:
        """Give what is to be shown now, in order: ranks, and their lines. now: None for all."""
        count = len(self._list)
        if now is not None and not self.crowded:
            while count and self._list[count - 1].due(self._nproc) > now:
                count -= 1
        taken, self._list = self._list[:count], self._list[count:]
        self.crowded = False
        for each in taken:
            self._shown = each.place
            self._waiting -= len(each.text)
            if self._list:
                self._unlist(each)
        if not self._list:
            self._having.clear()
            self._behind.clear()
            self._shown = 0.0
        shown: list[tuple[list[int], bytes]] = []
        for ranks, some in groupby(taken, lambda each: sorted(each.ranks)):
            shown.append((ranks, b"".join(each.written() for each in some)))
        return shown

    # -- looking

    def _next(self, rank: int) -> int:
        """Give the index of the first stretch behind those that a rank has a part in."""
        return bisect_right(self._list, self._behind.get(rank, 0.0), key=_place)

    def _find(self, rank: int, line: bytes) -> _Stretch | None:
        """Find the next stretch that has a line, behind those that the rank has a part in."""
        having = self._having.get(line)
        if having is None or not line.strip():  # it says nothing by itself
            return None
        at = bisect_right(having, self._behind.get(rank, 0.0), key=_place)
        return having[at] if at < len(having) else None

    # -- joining

    def _join(self, rank: int, text: bytes) -> bytes:
        """Join what stands next, as long as it is the same as a whole; gives what is left."""
        at = self._next(rank)
        while text and at < len(self._list):
            stretch = self._list[at]
            if not text.startswith(stretch.text):
                if not stretch.text.startswith(text):
                    break
                self._divide(at, text.count(b"\n"))
            self._take_part(rank, stretch)
            text = text[len(stretch.text) :]
            at += 1
        return text

    def _take_part(self, rank: int, stretch: _Stretch) -> None:
        stretch.ranks.add(rank)
        self._behind[rank] = stretch.place

    def _sort_in(self, rank: int, lines: list[bytes], now: float) -> None:
        """Join what is the same, line by line, and put in what is found nowhere."""
        wanted = [self._wanted(line) for line in lines] if self._numbers else lines
        at = alone = 0
        while at < len(lines):
            if (found := self._find(rank, wanted[at])) is None:
                at += 1
                continue
            end = at + len(found.lines)
            if found.lines != wanted[at:end]:
                self._divide(bisect_left(self._list, found.place, key=_place))
                continue
            if at > alone:
                self._put_in(rank, lines[alone:at], wanted[alone:at], now, found)
            self._take_part(rank, found)
            if self._numbers:
                self._widen(found, lines[at:end])
            at = alone = end
        if at > alone:
            self._put_in(rank, lines[alone:], wanted[alone:], now)

    def _put_in(
        self,
        rank: int,
        lines: list[bytes],
        wanted: list[bytes],
        now: float,
        before: _Stretch | None = None,
    ) -> None:
        """Put in what is found nowhere: before a stretch, or at the end."""
        at = len(self._list)
        if before is not None:
            at = bisect_left(self._list, before.place, key=_place)
        after = self._list[at - 1].place if at else self._shown
        place = after + 1.0 if before is None else (after + before.place) / 2
        self.crowded = self.crowded or place - after < CLOSE
        new = _Stretch(place, wanted, set(), now)
        self._list.insert(at, new)
        self._enlist(new)
        self._waiting += len(new.text)
        self._take_part(rank, new)
        if self._numbers:
            self._widen(new, lines)

    def _divide(self, at: int, count: int = 0) -> None:
        """Divide a stretch behind so many lines, 0: into its lines; the first part stays itself."""
        stretch = self._list[at]
        lines, ranges = stretch.lines, stretch.ranges
        cuts = [count] if count else range(1, len(lines))
        bounds = [*cuts, len(lines)]
        self._unlist(stretch)
        stretch.lines, stretch.text = lines[: bounds[0]], b"".join(lines[: bounds[0]])
        stretch.ranges = ranges[: bounds[0]]
        self._enlist(stretch)
        room = self._list[at + 1].place - stretch.place if at + 1 < len(self._list) else 1.0
        step = room / len(bounds)
        self.crowded = self.crowded or step < CLOSE
        rest: list[_Stretch] = []
        for n, (begin, end) in enumerate(pairwise(bounds), 1):
            place = stretch.place + n * step
            rest.append(_Stretch(place, lines[begin:end], {*stretch.ranks}, stretch.since))
            rest[-1].ranges = ranges[begin:end]
            self._enlist(rest[-1])
        self._list[at + 1 : at + 1] = rest
        for rank in stretch.ranks:
            if rest and self._behind[rank] == stretch.place:
                self._behind[rank] = rest[-1].place

    def _enlist(self, stretch: _Stretch) -> None:
        for line in {*stretch.lines}:
            insort(self._having.setdefault(line, []), stretch, key=_place)

    def _unlist(self, stretch: _Stretch) -> None:
        for line in {*stretch.lines}:
            having = self._having[line]
            having.remove(stretch)
            if not having:
                del self._having[line]

    # -- numbers

    @staticmethod
    def _wanted(line: bytes) -> bytes:
        """Give a line without its numbers."""
        return line if _HERE in line else _NUMBER.sub(_HERE, line)

    @staticmethod
    def _widen(stretch: _Stretch, lines: Sequence[bytes]) -> None:
        """Take the numbers of lines into the ranges of a stretch."""
        for n, line in enumerate(lines):
            found: list[bytes] = [] if _HERE in line else _NUMBER.findall(line)
            if n == len(stretch.ranges):
                stretch.ranges.append([(number, number) for number in found])
                continue
            stretch.ranges[n] = [
                (min(low, number, key=float), max(high, number, key=float))
                for (low, high), number in zip(stretch.ranges[n], found, strict=True)
            ]
