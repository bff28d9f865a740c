"""Draws a group as lines of text for a terminal, by rich: which columns fit, and colours."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from procession.values import figures
from procession.values.base import Value
from procession.values.ranks import short_ranks
from procession.view.rows import Row, fold
from procession.view.seen import Seen, Whole
from procession.view.words import counted, ending, plain, progress, state_of, step_of, used

GAP = 2
LEAST_LINE = 14  # columns of a last line of output
BAR, LONG_BAR = 8, 40  # columns of the progress of the group
MOST_FIELDS = 6
LONGEST_FIELD = 16
LEAST_ROWS = 5  # of a terminal that has room for more than one line
LAST = "LAST LINE"


class Column(Value):
    """One column. weight: the smaller, the later it is left out."""

    title: str
    weight: float
    cells: list[Text]
    justify: str = "right"

    @property
    def width(self) -> int:
        """How wide it must be, with the gap."""
        most = max(cell_len(self.title), *(cell.cell_len for cell in self.cells))
        return (LEAST_LINE if self.title == LAST else most) + GAP


class Drawing:
    """Draws for one terminal. colour: whether it has any."""

    def __init__(self, *, colour: bool = True) -> None:
        self._rich = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system="standard" if colour else None,
            no_color=not colour,
            legacy_windows=False,
        )

    def lines(self, whole: Whole, size: tuple[int, int], most: int) -> list[str]:
        """Draw the table of ranks, and the lines of the group below it.

        size: columns and rows of the terminal. most: so many lines at most.
        """
        width = max(1, size[0] - 1)  # the last column makes some terminals go to the next line
        below = [self._summary(whole, width)]
        if end := ending(whole):
            below.append(Text(end, "red bold"))
        if size[1] < LEAST_ROWS:
            return self._drawn(below[-1], width)
        room = most - len(below) - 1
        if room < 1 or not whole.ranks:
            return self._drawn(Group(*below), width)
        return self._drawn(Group(self._table(fold(whole.ranks, room), width), *below), width)

    def _drawn(self, what: Text | Group, width: int) -> list[str]:
        self._rich.width = width
        with self._rich.capture() as captured:
            self._rich.print(what, no_wrap=True, overflow="ellipsis")
        return captured.get().removesuffix("\n").split("\n")

    def _table(self, rows: Sequence[Row], width: int) -> Table:
        kept: list[Column] = []
        columns = _columns(rows)
        for column in sorted(columns, key=lambda c: c.weight):
            if not kept or sum(c.width for c in kept) + column.width <= width + GAP:
                kept.append(column)
        columns = [c for c in columns if c in kept]
        table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
        for c in columns:
            alone = c.title == LAST  # the one that is cut where there is no room for all of it
            table.add_column(_text(c.title), justify=c.justify, no_wrap=not alone)  # pyright: ignore[reportArgumentType]
        for cells in zip(*(c.cells for c in columns), strict=True):
            table.add_row(*cells)
        return table

    def _summary(self, whole: Whole, width: int) -> Text:
        """Draw the line of the group: the progress of its slowest rank, time, what it uses."""
        head, parts, also = counted(whole), progress(whole), used(whole)
        share = None if whole.slowest is None else whole.slowest.share
        least = BAR + 1 if share is not None else 0
        while also and cell_len(f"{head} {', '.join([*parts, *also])}") + least > width:
            also.pop()  # each rank's is in the table
        text = ", ".join([*parts, *also])
        room = min(LONG_BAR, width - cell_len(f"{head}  {text}"))
        line = Text(f"{head} ", "bold")
        if share is not None and room >= BAR:
            done = round(share * room)
            line.append("━" * done, "cyan").append(f"{'─' * (room - done)} ", "dim")
        return line.append(text)


def _columns(rows: Sequence[Row]) -> list[Column]:
    def column(title: str, weight: float, say: Callable[[Row], str], style: str = "") -> Column:
        return Column(title, weight, [_text(say(row), style) for row in rows])

    def of(
        value: Callable[[Seen], float | None], write: Callable[[list[float]], str]
    ) -> Callable[[Row], str]:
        def say(row: Row) -> str:
            found = [v for v in map(value, row.ranks) if v is not None]
            return write(found) if found else ""

        return say

    def sizes(found: list[float]) -> str:
        return figures.sizes([int(v) for v in found])

    def rates(found: list[float]) -> str:
        low, high = figures.rate(min(found)), figures.rate(max(found))
        return low if low == high else f"{low}-{high}"

    def last_line(row: Row) -> str:
        lines = {r.last_line for r in row.ranks}
        return plain(lines.pop()) if len(lines) == 1 else ""

    ranks = column("RANK", 0, lambda row: short_ranks([r.rank for r in row.ranks]), "bold")
    found = [
        ranks.__replace__(justify="left"),
        Column("STATE", 1, [Text(*_state(row)) for row in rows], "left"),
        column("STEP", 2, lambda row: step_of(row.ranks)),
        column("RATE", 3, of(lambda r: r.rate, rates)),
        column("LEFT", 4, of(lambda r: r.left, lambda v: figures.clock(max(v)))),
    ]
    names = dict.fromkeys(name for row in rows for r in row.ranks for name in r.fields or ())
    for nth, name in enumerate(list(names)[:MOST_FIELDS]):
        title = plain(name)[:LONGEST_FIELD]
        found.append(column(title, 6 + nth / 10, lambda row, name=name: _field(row, name)))
    found += [
        column("CPU", 8, of(lambda r: r.usage.cpu, _percent)),
        column("MEMORY", 5, of(lambda r: r.usage.memory, sizes)),
        column("GPU", 5.5, of(lambda r: r.usage.gpu, sizes)),
        column(LAST, 5.8, last_line, "dim").__replace__(justify="left"),
    ]
    return [c for c in found if any(c.cells)]


def _text(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _percent(found: list[float]) -> str:
    return f"{figures.between(found, lambda v: f'{v:.0f}')} %"


def _field(row: Row, name: str) -> str:
    values = [r.fields[name] for r in row.ranks if r.fields and name in r.fields]
    numbers = [v for v in values if not isinstance(v, str) and math.isfinite(v)]
    if len(numbers) == len(values):
        return figures.between(numbers) if numbers else ""
    texts = {plain(str(v))[:LONGEST_FIELD] for v in values}
    return texts.pop() if len(texts) == 1 else f"{len(texts)} values"


def _state(row: Row) -> tuple[str, str]:
    if row.odd == "failed":
        exits = {r.exit for r in row.ranks}
        return f"failed: {exits.pop()}" if len(exits) == 1 and "" not in exits else "failed", "red"
    if row.odd == "silent":
        return f"silent {figures.clock(max(r.quiet or 0 for r in row.ranks))}", "red"
    if row.odd:
        return row.odd, "red"
    states = {state_of(r) for r in row.ranks}
    text = states.pop() if len(states) == 1 else "several"
    return text, {"RUNNING": "green", "finished": "dim"}.get(text, "yellow")
