"""Tests of 4 ranks under pytest, per test: time and CPU time, without a process group and with."""

import os
import resource
from contextlib import suppress

from figures import Figure, Goal, nth
from measure import HERE, PYTHON, alternate, program, run
from script import Plan

TESTS, QUICK_TESTS = 100, 20
TESTS_OF_PEER = 1  # it takes seconds, and does not make the next one faster
GOALS = {"": 0.045, "gloo": 0.110}  # seconds


def reap() -> float:
    """Wait for all that a session has left to end; gives the CPU seconds of all before."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
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
    _, text = run(command, env)
    if f"{tests} passed" not in text:
        raise RuntimeError(f"{name}: not {tests} passed:\n{text[-2000:]}")
    took, used = map(float, (at / "clock").read_text().split())
    return took / tests, (reap() - before - used) / tests


def measure(plan: Plan) -> list[Figure]:
    tests = QUICK_TESTS if plan.quick else TESTS
    figures: list[Figure] = []
    for group, goal in GOALS.items():
        samples = alternate(
            {
                "ours": lambda g=group: sample(plan, "tests_procession", g, tests),
                "peer": lambda g=group: sample(plan, "tests_spawn", g, TESTS_OF_PEER),
            },
            plan.repeat,
        )
        goals = (Goal(goal), Goal(1 / 30, "peer"))
        where = group or "no process group"
        figures += [
            Figure(f"a test, {where}", "s", "mp.spawn", nth(samples, 0), goals),
            Figure(f"CPU of a test, {where}", "s", "mp.spawn", nth(samples, 1)),
        ]
    return figures
