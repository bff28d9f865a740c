"""Run the benchmarks, one after the other, print their table, and write results.json.

python benchmarks/run.py                      # all, about half an hour
python benchmarks/run.py lines tee            # these; the others' results stay as they are
python benchmarks/run.py --quick              # all, 2 samples of less work; writes nothing
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from table import RESULTS, tables

HERE = Path(__file__).resolve().parent
NAMES = (
    "start_torch_script",
    "start_ddp",
    "start_torch_function",
    "restart",
    "start_plain_script",
    "start_commands",
    "detect",
    "idle",
    "memory",
    "shared",
    "warm",
    "tests_in_ranks",
    "tee",
    "lines",
    "scale",
    "import",
    "nodes",
)


def machine() -> dict[str, Any]:
    """Describe the machine, as far as figures depend on it."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": names[0] if names else platform.machine(),
        "kernel": platform.release(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
    }


def versions() -> dict[str, str]:
    """Give the versions of all that is compared; procession's is that of its source, too."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    source = described.stdout.strip() or "no source tree"
    return {
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "procession": f"{metadata.version('procession')} ({source})",
    }


def main() -> int:
    """Run the command and give its exit code: 1 if a benchmark failed (not: missed its goal)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="2 samples, of less work")
    parser.add_argument("--repeat", metavar="N", help="samples of each way (default: 5)")
    parser.add_argument("--out", type=Path, help="the file to write (default: results.json)")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in NAMES]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    options = ["--quick"] * given.quick + (["--repeat", given.repeat] if given.repeat else [])
    out = given.out or (None if given.quick else RESULTS)
    there = out is not None and out.exists()
    found = json.loads(out.read_text(encoding="utf-8"))["benchmarks"] if there else {}
    where = {"machine": machine(), "versions": versions()}
    chosen = given.names or NAMES
    for name in chosen:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found.pop(name, None)
        load = os.getloadavg()[0]
        command = [sys.executable, str(HERE / "script.py"), name, *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            print(f"{name}: failed", file=sys.stderr)
            continue
        found[name] = {**json.loads(done.stdout), "load_before": round(load, 2), **where}
        if out is not None:
            results = {"benchmarks": {n: found[n] for n in NAMES if n in found}}
            out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"\n{tables(found[name] for name in chosen if name in found)}")
    return int(any(name not in found for name in chosen))


if __name__ == "__main__":
    sys.exit(main())
