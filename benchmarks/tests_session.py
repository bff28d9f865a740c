"""1,000 tests of 2 ranks in one session: processes, descriptors and memory, from test to test."""

import json
import os
import sys
import tempfile
from pathlib import Path

from measure import HERE, PYTHON, program, run

TESTS, QUICK_TESTS = 1000, 100
LOOKS = (0.1, 0.4, 0.7, 0.999)  # parts of the session
ROW = "| {test:>5,} | {processes:>9} | {descriptors:>11} | {own_mb:>14.0f} | {others_mb:>17.0f} |"


def main() -> None:
    """Run the session, and print what was there after some of its tests."""
    tests = QUICK_TESTS if "--quick" in sys.argv[1:] else TESTS
    looks = [int(part * tests) for part in LOOKS]
    with tempfile.TemporaryDirectory(prefix="benchmark_") as scratch:
        found = Path(scratch, "found")
        env = {
            "BENCHMARK_TESTS": str(tests),
            "BENCHMARK_LOOKS": " ".join(map(str, looks)),
            "BENCHMARK_CLOCK": str(found),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": f"{HERE / 'programs'}:{HERE}",
            "OMP_NUM_THREADS": "1",
        }
        command = [PYTHON, "-m", "pytest", "-p", "tests_look", "-p", "procession.pytest.plugin"]
        command += ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", scratch]
        ran = run([*command, program("tests_small")], env)
        if f"{tests} passed" not in ran.stdout:
            sys.exit(f"not {tests} passed:\n{ran.stdout[-2000:]}")
        print("| test  | processes | descriptors | MB of pytest's | MB of the others' |")
        print("|-------|-----------|-------------|----------------|-------------------|")
        for line in found.read_text().splitlines():
            print(ROW.format(**json.loads(line)))


if __name__ == "__main__":
    main()
