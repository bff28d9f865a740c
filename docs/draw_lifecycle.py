"""Draw the machines of the two lifecycles into the documentation, from their tables.

    python docs/draw_lifecycle.py            # write the diagrams into docs/design.md
    python docs/draw_lifecycle.py --check    # exit with 1 if they are not up to date

The diagrams stand between two markers, which the file must hold. They are Mermaid's
`stateDiagram-v2`; parallel edges are one, and events that leave a state as it is are left out.
"""

from __future__ import annotations

import argparse
import enum
import itertools
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from procession.engines.jobwords import JOB_TABLE, JobEvent, JobPhase
from procession.rules.tables import (
    GONE,
    GROUP_TABLE,
    PATIENT,
    WORKER_TABLE,
    DeadlineKind,
    GroupEvent,
    Stage,
    Worker,
    WorkerEvent,
)

BEGIN, END = "<!-- lifecycle:begin -->", "<!-- lifecycle:end -->"
VERDICT = "verdict"  # stands for the end that `Lifecycle.verdict` names


def draw(
    tables: Mapping[str, Mapping[Any, enum.Enum | None]],
    states: Iterable[enum.Enum],
    events: Iterable[enum.Enum],
    ends: Mapping[Any, str],
) -> str:
    """Draw one machine, in the order in which its states and events are defined.

    tables: by what stands behind the names of their events. ends: the last states, and what each
    means.
    """
    states = list(states)
    edges: dict[tuple[str, str], list[str]] = {}
    for before, event in itertools.product(states, events):
        for mark, table in tables.items():
            after = table.get((before, event), before)
            if after is not before:
                name = VERDICT if after is None else after.name
                edges.setdefault((before.name, name), []).append(f"{event.name}{mark}")
    judged = any(after == VERDICT for _, after in edges)
    lines = ["stateDiagram-v2"]
    if judged:
        lines.append(f"    state {VERDICT} <<choice>>")
    lines.append(f"    [*] --> {states[0].name}")
    lines += [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in edges.items()]
    if judged:
        lines += [f"    {VERDICT} --> {end.name}: {meaning}" for end, meaning in ends.items()]
    lines += [f"    {end.name} --> [*]" for end in ends]
    return "\n".join(lines)


def diagrams() -> str:
    """Give the text that stands between the markers."""
    gone = {end: end.value for end in GONE}
    rank = draw({"": WORKER_TABLE}, Worker, WorkerEvent, gone)
    # Single ranks move between the same stages.
    stages = {
        mark: {key: entry[0] for key, entry in table.items()}
        for mark, table in {"": GROUP_TABLE, " (patient)": PATIENT}.items()
    }
    final = {stage: stage.meaning for stage in Stage if stage.phase.final}
    group = draw(stages, Stage, [*GroupEvent, *DeadlineKind], final)
    job = draw({"": JOB_TABLE}, JobPhase, JobEvent, {p: p.value for p in JobPhase if p.final})
    return (
        f"A rank:\n\n```mermaid\n{rank}\n```\n\n"
        f"The group of ranks, which follows them:\n\n```mermaid\n{group}\n```\n\n"
        f"A job over several nodes (`engines/jobwords.py`):\n\n```mermaid\n{job}\n```"
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
