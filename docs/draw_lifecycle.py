"""Draw the two machines of the lifecycle into the documentation, from their tables.

    python docs/draw_lifecycle.py            # write the diagrams into docs/design.md
    python docs/draw_lifecycle.py --check    # exit with 1 if they are not up to date

The diagrams stand between two markers, which the file must hold. They are Mermaid's
`stateDiagram-v2`; parallel edges are one, and events that leave a state as it is are left out.
"""

from __future__ import annotations

import argparse
import enum
import sys
from collections.abc import Mapping
from pathlib import Path

from procession.lifecycle import GROUP_TABLE, WORKER_TABLE, GroupEvent, Phase, Worker, WorkerEvent

BEGIN, END = "<!-- lifecycle:begin -->", "<!-- lifecycle:end -->"
VERDICT = "verdict"  # stands for the end that `Lifecycle.verdict` names


def draw(
    table: Mapping[tuple[enum.Enum, enum.Enum], enum.Enum | None],
    states: type[enum.Enum],
    events: type[enum.Enum],
    ends: list[enum.Enum],
) -> str:
    """Draw one machine, in the order in which its states and events are defined."""
    edges: dict[tuple[str, str], list[str]] = {}
    for before in states:
        for event in events:
            after = table.get((before, event), before)
            if after is not before:
                name = VERDICT if after is None else after.name
                edges.setdefault((before.name, name), []).append(event.name)
    judged = any(after == VERDICT for _, after in edges)
    lines = ["stateDiagram-v2"]
    if judged:
        lines.append(f"    state {VERDICT} <<choice>>")
    lines.append(f"    [*] --> {next(iter(states)).name}")
    lines += [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in edges.items()]
    if judged:
        lines += [f"    {VERDICT} --> {end.name}: {end.value}" for end in ends]
    lines += [f"    {end.name} --> [*]" for end in ends]
    return "\n".join(lines)


def diagrams() -> str:
    """Give the text that stands between the markers."""
    rank = draw(WORKER_TABLE, Worker, WorkerEvent, [Worker.EXITED, Worker.LOST])
    group = draw(GROUP_TABLE, Phase, GroupEvent, [p for p in Phase if p.final])
    return (
        f"A rank:\n\n```mermaid\n{rank}\n```\n\n"
        f"The group of ranks, which follows them:\n\n```mermaid\n{group}\n```"
    )


def drawn_into(text: str) -> str:
    """Give the text with the diagrams between its markers. Raises ValueError without markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest:
        raise ValueError(f"it must hold {BEGIN} and, below, {END}, once each")
    return f"{before}{BEGIN}\n\n{diagrams()}\n\n{END}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = Path(__file__).with_name("design.md")
    parser.add_argument("file", nargs="?", type=Path, default=default, help="docs/design.md")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if out of date")
    options = parser.parse_args(arguments)
    try:
        text = options.file.read_text(encoding="utf-8")
        drawn = drawn_into(text)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else e
        print(f"draw_lifecycle: {options.file}: {reason}", file=sys.stderr)
        return 1
    if text == drawn:
        return 0
    if options.check:
        print(
            f"draw_lifecycle: {options.file} is not up to date; run {Path(__file__).name}",
            file=sys.stderr,
        )
        return 1
    options.file.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
