"""Draws how long launches take, from benchmarks/results.json: pictures/start_times.svg.

The figures are those of docs/performance.md, medians of all samples.
"""

from __future__ import annotations

import json
import statistics
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE.parent / "benchmarks" / "results.json"
PICTURE = HERE / "pictures" / "start_times.svg"
# (benchmark, its figure, what a reader sees)
BARS = (
    ("start_torch_script", "16 ranks, to the end", "16 ranks of a script that imports torch"),
    ("start_ddp", "first run", "8 ranks of a DDP script"),
    ("start_torch_function", "first launch", "16 ranks of a function that needs torch"),
    ("restart", "failure to all at work", "a restart: from the failure to all at work"),
    ("import", "`procession run true`", "the launcher alone: run true"),
)
LEFT, BAR, LINE, GAP, FULL = 300, 16, 19, 18, 420  # pixels
OURS, PEER, INK = "#1b7f5c", "#9aa5b1", "#1f2933"


def figures() -> list[tuple[str, float, float, str]]:
    """Give (what, ours, the peer's, who that is) of each bar, in seconds."""
    told = json.loads(RESULTS.read_text(encoding="utf-8"))["benchmarks"]
    found: list[tuple[str, float, float, str]] = []
    for benchmark, name, said in BARS:
        (figure,) = (f for f in told[benchmark]["figures"] if f["name"] == name)
        unit = {"s": 1.0, "ms": 1e-3}[figure["unit"]]
        ours, peer = (statistics.median(figure["samples"][s]) * unit for s in ("ours", "peer"))
        found.append((said, ours, peer, figure["peer"]))
    return found


def text() -> str:
    """Draw the picture."""
    rows = figures()
    longest = max(max(ours, peer) for _, ours, peer, _ in rows)
    height = 40 + len(rows) * (2 * LINE + GAP)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {LEFT + FULL + 170} {height}" font-family="system-ui, sans-serif" '
        f'font-size="13" fill="{INK}">',
        "<title>Seconds that a launch takes, under procession and under what it replaces</title>",
        f'<rect width="{LEFT + FULL + 170}" height="{height}" fill="#ffffff"/>',
        '<text x="12" y="22" font-weight="bold">seconds, shorter is better</text>',
    ]
    for at, (said, ours, peer, who) in enumerate(rows):
        top = 40 + at * (2 * LINE + GAP)
        parts.append(
            f'<text x="{LEFT - 10}" y="{top + LINE}" text-anchor="end">{escape(said)}</text>'
        )
        for k, (value, colour, name) in enumerate(((ours, OURS, "procession"), (peer, PEER, who))):
            y, width = top + k * LINE, max(FULL * value / longest, 1)
            parts.append(
                f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>'
                f'<text x="{LEFT + width + 6:.1f}" y="{y + 13}">{value:.3g} s, {name}</text>'
            )
    return "\n".join((*parts, "</svg>", ""))


def files() -> dict[Path, str]:
    """Give the picture."""
    return {PICTURE: text()}
