"""Draws a group as lines of text for a terminal, by rich: which columns fit, and colours."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from procession.values import figures
from procession.values.figures import short_ranks
from procession.view.seen import Whole
from procession.view.words import Row, ending, fold, plain, state_of, step_of, summary

GAP = 2
LEAST_LINE = 14  # columns of a last line of output
MOST_FIELDS = 6
LONGEST_FIELD = 16
LAST = "LAST LINE"
LEFT = ("RANK", "STATE", LAST)  # columns that begin at their left edge
FIELD = ""  # stands for all columns of fields
# What stays on narrow terminals, the most important first.
IMPORTANT = ("RANK", "STATE", "STEP", "RATE", "LEFT", "MEMORY", "GPU", LAST, FIELD, "CPU")

T = TypeVar("T")


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

    def lines(self, whole: Whole, columns: int, most: int) -> list[str]:
        """Draw the table of ranks, and the lines of the group below it.

        columns: of the terminal. most: so many lines at most.
        """
        width = max(1, columns - 1)  # the last column makes some terminals go to the next line
        drawn: list[Table | Text] = [Text(summary(whole), "bold")]
        if end := ending(whole):
            drawn.append(Text(end, "red bold"))
        room = most - len(drawn) - 1  # one for the titles
        if room > 0 and whole.ranks:
            drawn.insert(0, _table(fold(whole.ranks, room), width))
        self._rich.width = width
        with self._rich.capture() as captured:
            self._rich.print(Group(*drawn[-max(1, most) :]), no_wrap=True, overflow="ellipsis")
        return captured.get().removesuffix("\n").split("\n")


def _table(rows: Sequence[Row], width: int) -> Table:
    names = dict.fromkeys(name for row in rows for r in row.ranks for name in r.fields or ())
    cells = [_cells(row, list(names)[:MOST_FIELDS]) for row in rows]
    titles = [title for title in cells[0] if any(of_row[title] for of_row in cells)]
    kept: list[str] = []
    room = width + GAP
    for title in sorted(titles, key=_importance):
        widest = max(cell_len(title), *(of_row[title].cell_len for of_row in cells))
        needed = (LEAST_LINE if title == LAST else widest) + GAP
        if not kept or needed <= room:
            kept.append(title)
            room -= needed
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    titles = [title for title in titles if title in kept]
    for title in titles:
        justify = "left" if title in LEFT else "right"
        # The last line alone is cut where there is no room for all of it.
        table.add_column(Text(title), justify=justify, no_wrap=title != LAST)
    for of_row in cells:
        table.add_row(*(of_row[title] for title in titles))
    return table


def _importance(title: str) -> int:
    return IMPORTANT.index(title if title in IMPORTANT else FIELD)


def _cells(row: Row, names: Sequence[str]) -> dict[str, Text]:
    """Give what a row says, by the titles of columns. names: of the fields that have one."""
    ranks = row.ranks
    lines = {r.last_line for r in ranks}
    state, colour = _state(row)
    said = {
        "RANK": short_ranks([r.rank for r in ranks]),
        "STATE": state,
        "STEP": step_of(ranks),
        "RATE": _known([r.rate for r in ranks], lambda v: figures.between(v, figures.rate)),
        "LEFT": _known([r.left for r in ranks], lambda v: figures.clock(max(v))),
        **{plain(name)[:LONGEST_FIELD]: _field(row, name) for name in names},
        "CPU": _known(
            [r.usage.cpu for r in ranks], lambda v: f"{figures.between(v, '{:.0f}'.format)} %"
        ),
        "MEMORY": _known([r.usage.memory for r in ranks], figures.sizes),
        "GPU": _known([r.usage.gpu for r in ranks], figures.sizes),
        LAST: plain(lines.pop()) if len(lines) == 1 else "",
    }
    styles = {"RANK": "bold", "STATE": colour, LAST: "dim"}
    return {
        title: Text(text, styles.get(title, ""), no_wrap=True, overflow="ellipsis")
        for title, text in said.items()
    }


def _known(values: Iterable[T | None], write: Callable[[list[T]], str]) -> str:
    found = [v for v in values if v is not None]
    return write(found) if found else ""


def _field(row: Row, name: str) -> str:
    values = [r.fields[name] for r in row.ranks if r.fields and name in r.fields]
    numbers = [v for v in values if not isinstance(v, str) and math.isfinite(v)]
    if len(numbers) == len(values):
        return figures.between(numbers) if numbers else ""
    texts = {plain(str(v))[:LONGEST_FIELD] for v in values}
    return texts.pop() if len(texts) == 1 else f"{len(texts)} values"


def _state(row: Row) -> tuple[str, str]:
    """Name the state of a row, and its colour."""
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
