"""What a driver costs by the number of its nodes: measured with few, reckoned for many.

python benchmarks/model_nodes.py                    # measures, a minute; then reckons
python benchmarks/model_nodes.py --check 10000      # measures that, too, and shows it beside
python benchmarks/model_nodes.py --payload 1e6      # where a function's arguments are 1 MB

All work of a driver is for one agent, one message, or one block of output, in one thread. So what
it takes is their number times what one costs, in seconds of CPU; the network and the agents' own
work, which is done at the same time everywhere, come on top.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import dataclass
from typing import Any

from measure import ask, program

RANKS, NODES, SILENCE = 8, 1000, "4"
SIZES = (10, 100, 1000, 10_000)
NETWORK = 1.25e9  # bytes a second of the driver's machine: 10 Gbit/s
CREDIT = 64 << 10  # bytes of output of one agent that are on their way
BEAT = 1.0  # seconds from heartbeat to heartbeat


@dataclass(frozen=True)
class Costs:
    """Seconds of CPU for one agent or message; bytes of memory for one agent."""

    join: float
    start: float
    end: float
    conclude: float
    report: float
    beat: float
    line: float
    byte: float
    link: float
    held: float


def measured(nodes: int, *more: str) -> dict[str, float]:
    """Take a sample of all that a driver does."""
    return ask(program("drive_nodes"), str(nodes), str(RANKS), "fail", SILENCE, *more)


def costs_of(samples: list[dict[str, float]], nodes: int, byte: float) -> Costs:
    """Give what one agent costs. byte: what one of a payload does."""
    median = {key: statistics.median(s[key] for s in samples) for key in samples[0]}
    stages = ("join", "start", "end", "conclude", "report", "beat")
    return Costs(
        **{stage: median[f"{stage}_cpu"] / nodes for stage in stages},
        line=median["line_cpu"],
        byte=byte,
        link=(median["rss_joined"] - median["rss_before"]) / nodes,
        held=(median["rss_end"] - median["rss_before"]) / nodes,
    )


def reckoned(costs: Costs, nodes: int, payload: float) -> dict[str, float]:
    """Say what a driver of so many nodes needs. payload: bytes of each launch."""
    return {
        "join, s": nodes * costs.join,
        "start, s": nodes * (costs.start + payload * max(costs.byte, 1 / NETWORK)),
        "end of all after a failure, s": nodes * costs.end,
        "end put together, s": nodes * costs.conclude,
        "report, s": nodes * costs.report,
        "heartbeats, share of a core": nodes * costs.beat / BEAT,
        "lines a second, of each rank": (1 - min(1, nodes * costs.beat))
        / costs.line
        / nodes
        / RANKS,
        "output on its way at most, MB": nodes * CREDIT / 1e6,
        "memory of links, MB": nodes * costs.link / 1e6,
        "memory at the end, MB": nodes * costs.held / 1e6,
    }


def of_sample(sample: dict[str, float], nodes: int) -> dict[str, float]:
    """Say the same of a sample, for comparison."""
    return reckoned(costs_of([sample], nodes, byte=0.0), nodes, payload=0.0)


def limits(costs: Costs, payload: float) -> dict[str, int]:
    """Say from how many nodes on one loop over all agents is too slow."""
    each = max(costs.byte, 1 / NETWORK)
    per_start = costs.start + payload * each
    return {
        "starting takes 1 s": int(1 / per_start),
        "joining takes the 10 s that an agent waits": int(10 / costs.join),
        "heartbeats take half a core": int(0.5 * BEAT / costs.beat),
        "putting an end together takes a lease, 5 s": int(5 / costs.conclude),
        "starting takes 1 s with a payload of 1 MB": int(1 / (costs.start + 1e6 * each)),
        "1 line a second of each rank takes half a core": int(0.5 / costs.line / RANKS),
    }


def main() -> None:
    """Measure, reckon, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=3, help="samples (default: 3)")
    parser.add_argument("--check", type=int, metavar="NODES", help="measure that many, too")
    parser.add_argument("--payload", type=float, default=0.0, help="bytes of each launch")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    samples = [measured(NODES, "--logs") for _ in range(given.repeat)]
    few, large = 100, 4_000_000
    loaded = measured(few, "--payload", str(large))["start_cpu"]
    costs = costs_of(samples, NODES, byte=loaded / few / large)
    columns = {f"{n:,}": reckoned(costs, n, given.payload) for n in SIZES}
    if given.check:
        # Without output: two processes of stubs cannot show as much as so many agents.
        sample = {**samples[0], **measured(given.check)}
        columns[f"{given.check:,} measured"] = of_sample(sample, given.check)
    told: dict[str, Any] = {
        "costs": vars(costs),
        "nodes": columns,
        "limits": limits(costs, given.payload),
    }
    if given.json:
        print(json.dumps(told))
        return
    print(f"| nodes, of {RANKS} ranks | {' | '.join(columns)} |")
    print("|---|" + "---|" * len(columns))
    for name in columns["10"]:
        cells = [f"{column[name]:,.3g}" for column in columns.values()]
        print(f"| {name} | {' | '.join(cells)} |")
    for name, nodes in told["limits"].items():
        print(f"{name}: {nodes:,} nodes")


if __name__ == "__main__":
    main()
