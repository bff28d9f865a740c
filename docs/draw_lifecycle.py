"""Draws the machines of the two lifecycles into docs/design.md, from their tables.

The diagrams stand between two markers. They are Mermaid's `stateDiagram-v2`; parallel edges are
one, and events that leave a state as it is are left out.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from markers import between
from procession.rules.jobwords import JOB_TABLE, JobEvent, JobPhase
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

PAGE = Path(__file__).with_name("design.md")
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
    job = draw({"": JOB_TABLE}, JobPhase, JobEvent, {p: p.meaning for p in JobPhase if p.final})
    return (
        f"A rank:\n\n```mermaid\n{rank}\n```\n\n"
        f"The group of ranks, which follows them:\n\n```mermaid\n{group}\n```\n\n"
        f"A job over several nodes (`rules/jobwords.py`):\n\n```mermaid\n{job}\n```"
    )


def files() -> dict[Path, str]:
    """Give the page, with the diagrams between its markers."""
    return {PAGE: between(PAGE.read_text(encoding="utf-8"), "lifecycle", diagrams())}
