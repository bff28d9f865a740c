"""Processes from the template, and other plugins of pytest."""

import importlib.util
import os
import re

import pytest
from pytestruns import run

PROCESSES = """
    import multiprocessing
    import os
    import sys
    import time

    state = []

    def told(queue, tensor):
        queue.put((len(state), os.getppid(), tensor))

    def fails():
        sys.exit(3)

    def test_process():
        state.append("a test has run here")
        spawn = multiprocessing.get_context("spawn")
        queue = spawn.SimpleQueue()
        process = spawn.Process(target=told, args=(queue, [1, 2]))
        process.start()
        count, parent, value = queue.get()
        process.join()
        assert (count, value, process.exitcode) == (0, [1, 2], 0)
        assert parent != os.getpid()

    def told_variables(queue):
        queue.put((os.environ.get("COLOUR"), os.environ.get("LINES"), time.tzname[0]))

    def test_variables_are_those_of_now(monkeypatch):
        monkeypatch.setenv("COLOUR", "blue")
        monkeypatch.setenv("TZ", "HERE+3")
        monkeypatch.delenv("LINES")
        spawn = multiprocessing.get_context("spawn")
        queue = spawn.SimpleQueue()
        process = spawn.Process(target=told_variables, args=(queue,))
        process.start()
        assert queue.get() == ("blue", None, "HERE")
        process.join()

    def test_output(capfd):
        process = multiprocessing.get_context("spawn").Process(target=print, args=("said",))
        process.start()
        process.join()
        assert capfd.readouterr() == ("said\\n", "")

    def test_exit_code():
        process = multiprocessing.get_context("spawn").Process(target=fails)
        process.start()
        process.join()
        assert process.exitcode == 3

    def starts_another():
        inner = multiprocessing.get_context("spawn").Process(target=fails)
        inner.start()
        inner.join()
        sys.exit(inner.exitcode + 1)

    def test_of_a_process():
        process = multiprocessing.get_context("spawn").Process(target=starts_another)
        process.start()
        process.join()
        assert process.exitcode == 4

    def test_killed():
        spawn = multiprocessing.get_context("spawn")
        process = spawn.Process(target=time.sleep, args=(600,), daemon=True)
        process.start()
        process.kill()
        process.join()
        assert process.exitcode == -9
"""
MANY = """
    import os
    import random
    import time

    import pytest

    @pytest.mark.ranks(2)
    @pytest.mark.parametrize("n", range(6))
    def test_many(n, rank, gather):
        with open(os.environ["NOTES"], "a") as notes:
            notes.write("+")
        assert gather(rank) == [0, 1]
        with open(os.environ["NOTES"], "a") as notes:
            notes.write("-")

    @pytest.mark.ranks(2)
    def test_bad(rank):
        assert rank == 5

    @pytest.mark.ranks(3)
    def test_large(rank):
        pass
"""

pytestmark = pytest.mark.timeout(180)


def test_processes_of_tests_come_from_the_template(tmp_path):
    found = run(tmp_path, "--ranks-template", env={"LINES": "50"}, test_a=PROCESSES)
    assert set(found.outcomes.values()) == {"passed"}, found.text
    assert len(found.outcomes) == 6


def test_workers_together_run_so_many_ranks_at_a_time(tmp_path):
    notes = tmp_path / "notes"
    more = {"NOTES": str(notes)}
    found = run(tmp_path, "-n", "2", "--ranks-at-once", "2", env=more, test_a=MANY)
    expected = {f"test_many[{n}]": "passed" for n in range(6)} | {"test_bad": "failure"}
    assert found.outcomes == {**expected, "test_large": "passed"}, found.text
    assert "same line: assert " in found.text
    at_once, most = 0, 0
    for sign in notes.read_text():
        at_once += 1 if sign == "+" else -1
        most = max(most, at_once)
    assert most == 2


def installed(*names):
    return all(importlib.util.find_spec(name) is not None for name in names)


@pytest.mark.long
@pytest.mark.skipif(
    not installed("pytest_cov", "pytest_randomly", "pytest_repeat", "pytest_rerunfailures"),
    reason="needs pytest-cov, pytest-randomly, pytest-repeat and pytest-rerunfailures",
)
def test_other_plugins(tmp_path):
    lib = """
        def used_in_ranks(rank):
            if rank == 1:
                return "only rank 1 comes here"
            return "the others"
    """
    tests = """
        import os
        import random

        import lib
        import pytest

        @pytest.mark.ranks(2)
        def test_seed(gather):
            assert len(set(gather(random.random()))) == 1

        @pytest.mark.ranks(2)
        def test_measured(rank):
            assert lib.used_in_ranks(rank)

        @pytest.mark.ranks(2)
        def test_flaky(rank, request):
            here = request.config.rootpath / f"been{rank}"
            there = here.exists()
            here.touch()
            assert there

        @pytest.mark.ranks(2)
        @pytest.mark.timeout(1.5)
        def test_slow():
            import time
            time.sleep(600)
    """
    words = ("-p", "no:asyncio", "-p", "no:cacheprovider")
    found = run(tmp_path, "--count=2", "--reruns=1", "--cov=lib", "--cov-report=term-missing",
                "-k", "not slow", quiet=words, test_a=tests, lib=lib)  # fmt: skip
    assert set(found.outcomes.values()) == {"passed"}, found.text
    assert len(found.outcomes) == 6
    assert re.search(r"lib\.py +\d+ +0 +100%", found.text), found.text
    assert "1 rerun" in found.text
    found = run(tmp_path, "-k", "slow", quiet=words)
    assert found.message("test_slow") == "the test had not ended after 1.5 s"
    assert os.listdir(os.environ["TMPDIR"]) == []


def test_hypothesis_and_the_fixtures_of_ranks(tmp_path):
    """It looks at the fixtures of a test in pytest's own process, too, where there are none."""
    tests = """
        import functools

        import pytest
        from hypothesis import HealthCheck, given, settings, strategies

        pytestmark = pytest.mark.ranks(2)
        few = settings(max_examples=5, database=None, deadline=None)
        numbers = given(number=strategies.integers())

        @few
        @numbers
        def test_plain(rank, number):
            assert rank in (0, 1)

        @pytest.mark.ranks(2, method="spawn")
        @few
        @numbers
        def test_spawned(rank, number):
            assert rank in (0, 1)

        @pytest.mark.parametrize("x", [1])
        @few
        @numbers
        def test_parametrized(rank, x, number):
            assert (rank in (0, 1), x) == (True, 1)

        class Test:
            @few
            @numbers
            def test_method(self, rank, number):
                assert rank in (0, 1)

        @few
        @numbers
        def test_fails(rank, number):
            assert rank == 0

        @pytest.fixture
        def resource(rank):
            return rank

        @few
        @numbers
        def test_function_scope(resource, number):
            pass

        @settings(few, suppress_health_check=[HealthCheck.function_scoped_fixture])
        @numbers
        def test_function_scope_allowed(resource, number):
            assert resource in (0, 1)
    """
    found = run(tmp_path, test_a=tests)
    failed = {"test_fails", "test_function_scope"}
    assert found.outcomes == {
        name: "failure" if name in failed else "passed"
        for name in ("test_plain", "test_spawned", "test_parametrized[1]", "test_method",
                     "test_function_scope_allowed", *failed)
    }, found.text  # fmt: skip
    assert "rank 1 of 2" in found.message("test_fails")
    assert "uses a function-scoped fixture 'resource'" in found.part("test_function_scope")
