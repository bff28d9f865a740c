"""Tests of 4 ranks under pytest, per test: time and CPU time, without a process group and with."""

import os
import resource
import shutil
from functools import partial

from figures import Figure, Goal
from measure import HERE, PYTHON, alternate, program, run
from script import Plan, main

TESTS, QUICK_TESTS = 100, 20
TESTS_OF_PEERS = 1  # each takes seconds, and none makes the next one faster
PEERS = {"mp.spawn": "tests_spawn", "MultiProcessTestCase": "tests_case"}
if shutil.which("mpirun"):
    PEERS["mpirun"] = "tests_mpirun"
GOALS = {"": 0.045, "gloo": 0.110}  # seconds


def reap() -> float:
    """Wait for all that a session has left to end; gives the CPU seconds of all before."""
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def sample(plan: Plan, name: str, group: str, tests: int) -> tuple[float, float]:
    """Run a session; gives the seconds and the CPU seconds for each test, collecting left out."""
    before = reap()
    at = plan.directory()
    env = {
        "BENCHMARK_TESTS": str(tests),
        "BENCHMARK_GROUP": group,
        "BENCHMARK_CLOCK": str(at / "clock"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(HERE / "programs"),
    }
    command = [PYTHON, "-m", "pytest", "-p", "tests_clock", "-p", "procession.pytest.plugin"]
    command += ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(at), program(name)]
    ran = run(command, env)
    if f"{tests} passed" not in ran.stdout:
        raise RuntimeError(f"{name}: not {tests} passed:\n{ran.stdout[-2000:]}")
    took, used = map(float, (at / "clock").read_text().split())
    return took / tests, (reap() - before - used) / tests


def measure(plan: Plan) -> list[Figure]:
    tests = QUICK_TESTS if plan.quick else TESTS
    figures: list[Figure] = []
    for group, goal in GOALS.items():

        def ours(group: str = group) -> tuple[float, float]:
            return sample(plan, "tests_procession", group, tests)

        def theirs(name: str, group: str = group) -> tuple[float, float]:
            return sample(plan, name, group, TESTS_OF_PEERS)

        peers = {peer: partial(theirs, name) for peer, name in PEERS.items()}
        samples = alternate({"ours": ours, **peers}, plan.repeat)
        for peer in PEERS:
            goals = (Goal(goal), Goal(1 / 30, "peer"))
            for n, (what, unit) in enumerate((("a test", "s"), ("CPU of a test", "s"))):
                values = {
                    "ours": [pair[n] for pair in samples["ours"]],
                    "peer": [pair[n] for pair in samples[peer]],
                }
                name = f"{what}, {group or 'no process group'}"
                figures.append(Figure(name, unit, peer, values, goals if n == 0 else ()))
    return figures


if __name__ == "__main__":
    main(__doc__, measure, most_seconds=1800)
