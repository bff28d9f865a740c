"""Draws rows as lines of text for a terminal: which columns fit, how wide they are, and colours.

rich knows how wide characters are, and how a style is written. Its tables would take 20 times as
long as the columns here, four times a second. `wcwidth` alone takes longer to import (33 ms of CPU,
rich 21), and the standard library does not know which characters are joined into one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.color import ColorSystem
from rich.style import Style

from procession.values import figures
from procession.values.base import Value
from procession.values.ranks import short_ranks
from procession.view.phrases import counted, plain, state_of, step_of, used
from procession.view.rows import Row
from procession.view.seen import Seen, Whole

GAP = 2
LEAST_LINE, GOOD_LINE = 14, 30  # columns of a last line of output
LEAST_BAR, MOST_BAR = 8, 24
MOST_FIELDS = 6
OVER = ("SUCCEEDED", "FAILED", "STOPPED")
LONGEST_FIELD = 16
STYLES = {
    "title": Style(bold=True, underline=True),
    "good": Style(color="green"),
    "busy": Style(color="yellow"),
    "bad": Style(color="red", bold=True),
    "quiet": Style(dim=True),
    "bar": Style(color="cyan"),
    "strong": Style(bold=True),
}


class Column(Value):
    """One column. weight: the smaller, the later it is left out. cells: text and style by row."""

    title: str
    weight: float
    cells: list[tuple[str, str]]
    right: bool = False
    least: int = 0  # 0: it cannot be cut

    @property
    def width(self) -> int:
        """How wide it would be."""
        return max(cell_len(self.title), *(cell_len(text) for text, _ in self.cells))


class Drawing:
    """Draws for one terminal. colour: whether it has any. unicode: or only ASCII."""

    def __init__(self, *, colour: bool = True, unicode: bool = True) -> None:
        self._colour = ColorSystem.STANDARD if colour else None
        self._unicode = unicode

    def lines(self, whole: Whole, rows: Sequence[Row], width: int) -> list[str]:
        """Draw the table of ranks: a line of titles, and a line for each row."""
        columns = _fitting(_columns(whole, rows), width)
        widths = _widths(columns, width)
        drawn = [
            "".join(
                self._styled(self._cell(c.title, w, c.right), "title")
                for c, w in zip(columns, widths, strict=True)
            )
        ]
        for at, row in enumerate(rows):
            line = ""
            for column, size in zip(columns, widths, strict=True):
                text, style = column.cells[at]
                if column.title == "PROGRESS":
                    line += self._bar(row.ranks, size - GAP) + " " * GAP
                else:
                    line += self._styled(self._cell(text, size, column.right), style)
            drawn.append(line)
        return drawn

    def summary(self, whole: Whole, width: int) -> str:
        """Draw the line of the group: the progress of its slowest rank, time, what it uses."""
        slowest = whole.slowest
        head = f"{plain(whole.name)}: {counted(whole)}"
        parts: list[str] = []
        if slowest is not None and slowest.step is not None:
            parts.append(step_of([slowest]))
            if slowest.rate is not None and not slowest.gone:
                parts.append(figures.rate(slowest.rate))
            if slowest.left is not None:
                parts.append(f"{figures.clock(slowest.left)} left")
        if whole.restarts:
            parts.append(f"attempt {whole.attempt} of 0-{whole.restarts}")
        parts.append(figures.clock(whole.seconds))
        also = used(whole)
        share = None if slowest is None else slowest.share
        least = 0 if share is None else LEAST_BAR + 1
        while also and cell_len(f"{head} {', '.join([*parts, *also])}") + least > width:
            also.pop()  # each rank's is in the table
        text = ", ".join([*parts, *also])
        space = width - cell_len(f"{head} {text}") - 1
        if share is None or space < LEAST_BAR:
            return self._styled(self._cell(f"{head} {text}", width, gap=0), "strong")
        bar = self._bar([slowest] if slowest else [], min(space, 2 * MOST_BAR))
        return f"{self._styled(head, 'strong')} {bar} {self._styled(text, 'strong')}"

    def ending(self, whole: Whole, width: int) -> str:
        """Draw why a group is being ended, and how long until SIGKILL; "" if it is not."""
        left = sum(not r.gone for r in whole.ranks)
        still = f"{left} {'rank' if left == 1 else 'ranks'} left"
        said = ""
        if whole.state == "STOPPING" and any(r.state == "KILLING" for r in whole.ranks):
            said = f"killing, {still}"
        elif whole.state == "STOPPING" and whole.to_kill is not None:
            said = f"stopping, {still}, {whole.to_kill:.0f} s to SIGKILL"
        elif whole.state == "SWEEPING" and whole.to_kill is not None:
            said = f"ending what ranks left behind, {whole.to_kill:.0f} s to SIGKILL"
        elif whole.state == "STOPPING":
            said = f"{still}, which may end by themselves"
        cause = plain(whole.cause) if whole.state not in OVER else ""  # its report says it
        text = ": ".join(part for part in (cause, said) if part)
        return self._styled(self._cell(text, width, gap=0), "bad") if text else ""

    def _bar(self, ranks: Sequence[Seen], size: int) -> str:
        shares = [r.share for r in ranks if r.share is not None]
        if not shares or size < 1:
            return " " * max(0, size)
        done = round(min(shares) * size)
        full, empty = ("━", "─") if self._unicode else ("#", ".")
        return self._styled(full * done, "bar") + self._styled(empty * (size - done), "quiet")

    def _cell(self, text: str, size: int, right: bool = False, gap: int = GAP) -> str:
        """Make a text `size` columns wide, of which the last `gap` are empty."""
        if not self._unicode:
            text = text.encode("ascii", "replace").decode()
        room = max(0, size - gap)
        if cell_len(text) > room:
            dots = "…" if self._unicode else "..."
            text = set_cell_size(text, max(0, room - len(dots))) + dots
        space = " " * max(0, room - cell_len(text))
        return set_cell_size(space + text if right else text, size)

    def _styled(self, text: str, style: str) -> str:
        if not style or self._colour is None:
            return text
        return STYLES[style].render(text, color_system=self._colour)


def _columns(whole: Whole, rows: Sequence[Row]) -> list[Column]:
    def column(
        title: str, weight: float, tell: Callable[[Row], str], style: str = "", right: bool = True
    ) -> Column:
        return Column(title, weight, [(tell(row), style) for row in rows], right)

    def of(
        values: Callable[[Seen], float | None], write: Callable[[Sequence[float]], str]
    ) -> Callable[[Row], str]:
        def tell(row: Row) -> str:
            found = [v for v in map(values, row.ranks) if v is not None]
            return write(found) if found else ""

        return tell

    def sizes(found: Sequence[float]) -> str:
        return figures.sizes([int(v) for v in found])

    found = [
        column("RANK", 0, lambda row: short_ranks([r.rank for r in row.ranks]), "strong", False),
        Column("STATE", 1, [_state(row) for row in rows]),
        column("STEP", 2, lambda row: step_of(row.ranks)),
        column("PROGRESS", 9, lambda row: " " * LEAST_BAR * any(r.share for r in row.ranks)),
        column("RATE", 3, of(_rate, _rates)),
        column("LEFT", 4, of(lambda r: r.left, lambda v: figures.clock(max(v)))),
    ]
    names = dict.fromkeys(name for row in rows for r in row.ranks for name in r.fields or ())
    for nth, name in enumerate(list(names)[:MOST_FIELDS]):
        title = plain(name)[:LONGEST_FIELD]
        found.append(column(title, 6 + nth / 10, lambda row, name=name: _field(row, name)))
    found += [
        column("CPU", 8, of(lambda r: r.usage.cpu, lambda v: figures.between(v, _whole) + " %")),
        column("MEMORY", 5, of(lambda r: r.usage.memory, sizes)),
        column("GPU", 5.5, of(lambda r: r.usage.gpu, sizes)),
    ]
    found = [c for c in found if any(text for text, _ in c.cells)]
    lines = [(plain(row.ranks[0].last_line) if _one(row) else "", "quiet") for row in rows]
    if any(text for text, _ in lines):
        found.append(Column("LAST LINE", 5.8, lines, least=LEAST_LINE))
    return found


def _one(row: Row) -> bool:
    """Whether the last lines of all ranks of a row are equal."""
    return all(r.last_line == row.ranks[0].last_line for r in row.ranks)


def _rate(r: Seen) -> float | None:
    return None if r.gone else r.rate


def _rates(found: Sequence[float]) -> str:
    low, high = figures.rate(min(found)), figures.rate(max(found))
    if low == high:
        return low
    if low.partition("/")[2] == high.partition("/")[2]:
        return f"{low.partition('/')[0]}-{high}"
    return f"{low}-{high}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _field(row: Row, name: str) -> str:
    values = [r.fields[name] for r in row.ranks if r.fields and name in r.fields]
    numbers = [v for v in values if not isinstance(v, str)]
    if len(numbers) == len(values):
        finite = [v for v in numbers if math.isfinite(v)]
        return figures.between(finite) if finite else "".join({str(v) for v in numbers[:1]})
    texts = {str(v) for v in values}
    return plain(texts.pop())[:LONGEST_FIELD] if len(texts) == 1 else f"{len(texts)} values"


def _state(row: Row) -> tuple[str, str]:
    first = row.ranks[0]
    if row.odd == "failed":
        exits = {r.exit for r in row.ranks}
        return (f"failed: {exits.pop()}" if len(exits) == 1 and first.exit else "failed", "bad")
    if row.odd == "silent":
        return f"silent {figures.clock(max(r.quiet or 0 for r in row.ranks))}", "bad"
    if row.odd:
        return {"memory": "much memory"}.get(row.odd, row.odd), "bad"
    states = {state_of(r) for r in row.ranks}
    text = states.pop() if len(states) == 1 else "several"
    styles = {"RUNNING": "good", "finished": "quiet"}
    return text, styles.get(text, "busy")


def _fitting(columns: list[Column], width: int) -> list[Column]:
    """Leave out what does not fit, the least important first."""
    kept: list[Column] = []
    used = 0
    for column in sorted(columns, key=lambda c: c.weight):
        size = (column.least or column.width) + GAP
        if used + size <= width or not kept:
            kept.append(column)
            used += size
    return [c for c in columns if c in kept]


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Give each column its width, gap included."""
    sizes = [(c.least or c.width) + GAP for c in columns]
    room = width - sum(sizes)
    for at, column in enumerate(columns):
        if column.title == "PROGRESS" and room > GOOD_LINE:
            grown = min(MOST_BAR - column.width, room - GOOD_LINE)
            sizes[at] += max(0, grown)
            room -= max(0, grown)
    for at, column in enumerate(columns):
        if column.least:
            sizes[at] += max(0, min(room, column.width - column.least))
    if sizes:
        sizes[0] = min(sizes[0], max(1, width))
    return sizes
