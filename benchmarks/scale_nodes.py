"""A driver and 1,000 agents of 8 ranks each, which are stubs: all connected, started, ended."""

from figures import Figure
from measure import alternate, ask, limit, program
from script import Plan, main

NODES, QUICK_NODES, RANKS = 1000, 100, 8
SILENCE, QUICK_SILENCE = 5, 2  # seconds
STAGES = (
    ("agents connected", "join", "s", 1, 0),
    ("ranks started", "start", "s", 1, 1),
    ("failure to all others told", "told", "s", 1, None),
    ("failure to end of all", "end", "s", 1, 1),
    ("end put together", "conclude", "s", 1, None),
    ("report", "report", "s", 1, None),
    ("CPU time of joining, per agent", "join_cpu", "ms", 1e3, None),
    ("CPU time of starting, per agent", "start_cpu", "ms", 1e3, None),
    ("CPU time of ending, per agent", "end_cpu", "ms", 1e3, None),
    ("CPU time of heartbeats", "beat_cpu", "ms/s", 1e3, None),
    ("wake-ups by heartbeats", "beat_wakeups", "/s", 1, None),
    ("CPU time of a line", "line_cpu", "µs", 1e6, None),
    ("CPU time of a block of 16 kB", "block_cpu", "µs", 1e6, None),
    ("memory of links", "rss_joined", "MB", 1e-6, None),
    ("memory at the end", "rss_end", "MB", 1e-6, None),
)  # name, what of drive_nodes.py, unit, factor, which value of the limit is its like


def measure(plan: Plan) -> list[Figure]:
    nodes = QUICK_NODES if plan.quick else NODES
    silence = QUICK_SILENCE if plan.quick else SILENCE
    drive = program("drive_nodes")
    samples = alternate(
        {
            "fail": lambda: ask(drive, str(nodes), str(RANKS), "fail", str(silence), "--logs"),
            "limit": lambda: ask(limit("broadcast"), str(nodes)),
        },
        plan.repeat,
    )
    stopped = [ask(drive, str(nodes), str(RANKS), "stop", "1") for _ in range(plan.repeat)]

    def figure(name: str, key: str, unit: str, factor: float, like: int | None) -> Figure:
        per = nodes if "per agent" in name else 1
        before = "rss_before" if key.startswith("rss") else ""
        ours = [(t[key] - t.get(before, 0)) * factor / per for t in samples["fail"]]
        by_hand = [] if like is None else [times[like] for times in samples["limit"]]
        return Figure(f"{name}, {nodes:,} nodes", unit, "", {"ours": ours, "limit": by_hand})

    found = [figure(*stage) for stage in STAGES]
    for name, key in (("stop to all told", "told"), ("stop to end of all", "end")):
        by_hand = [times[1] for times in samples["limit"]] if key == "end" else []
        sides = {"ours": [times[key] for times in stopped], "limit": by_hand}
        found.append(Figure(f"{name}, {nodes:,} nodes", "s", "", sides))
    return found


if __name__ == "__main__":
    main(__doc__, measure, most_seconds=600)
