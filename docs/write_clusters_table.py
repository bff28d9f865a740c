"""Makes the table of docs/clusters.md of what tests/cluster/test_same_work.py has measured.

PROCESSION_CLUSTER_TABLE=/tmp/table make test-cluster
python docs/write_clusters_table.py /tmp/table
"""

import json
import sys
from pathlib import Path
from statistics import median

PAGE = Path(__file__).with_name("clusters.md")
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"


def table(lines):
    """Write one line for each work, with a column for each engine; medians of several runs."""
    found = {}
    for each in map(json.loads, lines):
        found.setdefault(each["what"], {}).setdefault(each["engine"], []).append(each)
    rows = ["| 6 ranks on 3 nodes | Slurm | Ray | ssh |", "|---|---|---|---|"]
    for what, by_engine in found.items():
        cells = [cell(by_engine.get(name, [])) for name in ("slurm", "ray", "ssh")]
        rows.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def cell(runs):
    """Write what came of the same work in several runs."""
    if not runs:
        return "not tried"
    times = [each["seconds"] for each in runs if each["seconds"] is not None]
    took = f", {median(times):.2f} s" if times else ""
    return f"{runs[-1]['came']}{took}; left: {runs[-1]['left']}"


def main():
    """Put the table into the page."""
    lines = Path(sys.argv[1]).read_text().splitlines()
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{table(lines)}{END}{after}")


if __name__ == "__main__":
    main()
