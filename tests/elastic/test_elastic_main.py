"""Functions of the main program, and what ranks know of themselves and of their launcher."""

import multiprocessing
import os

import pytest
from elasticwork import who

from procession.elastic import DefaultLogsSpecs, start_processes
from support import run_python, write

FRESH = ("spawn", "forkserver")
NAMES = {"spawn": "SpawnProcess", "forkserver": "ForkServerProcess", "fork": "ForkProcess"}


def run_script(tmp_path, source, *words):
    """Run a script whose log directories, too, are in `tmp_path`."""
    script = write(tmp_path / "main.py", source)
    return run_python(script, *words, cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)})


def said(tmp_path, source, *words):
    """Run a script that must end well; give what it printed, sorted."""
    done = run_script(tmp_path, source, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize("method", FRESH)
def test_a_guarded_script_is_imported_again(tmp_path, method):
    """What stands there by itself holds in ranks, too, and values are of the launcher's types."""
    source = f"""
        import random, sys, threading
        from procession.elastic import start_processes

        random.seed(7)
        lock = threading.Lock()  # cannot be pickled
        setting = __name__

        class Config:
            size = 3

        def work(config):
            with lock:
                assert isinstance(config, Config)
                return config, setting, work.__module__, random.random(), sys.argv[1:]

        if __name__ == "__main__":
            setting = "changed later"
            args = {{rank: (Config(),) for rank in range(2)}}
            result = start_processes("work", work, args, start_method="{method}").wait()
            number = random.random()
            for config, *told in result.return_values.values():
                print(type(config) is Config, told == ["__mp_main__"] * 2 + [number, sys.argv[1:]])
        """
    assert said(tmp_path, source, "--fast") == ["True True"] * 2


@pytest.mark.parametrize("method", FRESH)
def test_the_variables_of_a_rank_are_set_when_its_script_is_imported_again(tmp_path, method):
    source = f"""
        import os
        from procession.elastic import start_processes

        seen = os.environ.get("LOCAL_RANK"), os.environ.get("OMP_NUM_THREADS")

        def work():
            return seen

        if __name__ == "__main__":
            ranks = range(2)
            args, envs = {{r: () for r in ranks}}, {{r: {{"LOCAL_RANK": r}} for r in ranks}}
            print(start_processes("work", work, args, envs, start_method="{method}")
                  .wait().return_values)
        """
    assert said(tmp_path, source) == ["{0: ('0', None), 1: ('1', None)}"]


@pytest.mark.parametrize("method", FRESH)
@pytest.mark.parametrize("guard", ["if True:", 'if __name__ == "__main__":'])
def test_what_can_only_go_by_value(tmp_path, method, guard):
    """The original starts the first script again and again, and cannot pickle the lambda."""
    source = f"""
        from procession.elastic import start_processes

        class Config:
            size = 3

        def work(config):
            return config.size, work.__module__

        print("once" if __name__ == "__main__" else "again")
        {guard}
            five = 5
            for fn, arg in ((work, Config()), (lambda n: n + five, 2)):
                result = start_processes("work", fn, {{0: (arg,)}}, start_method="{method}").wait()
                print(result.return_values)
        """
    main, again = ("__mp_main__", ["again"]) if "name" in guard else ("__main__", [])
    assert said(tmp_path, source) == sorted([*again, "once", "{0: 7}", f"{{0: (3, {main!r})}}"])


def test_a_start_outside_the_guard_is_refused_in_ranks(tmp_path):
    """Not started again and again, and the reason is told."""
    source = """
        from procession.elastic import start_processes

        def work():
            return 1

        result = start_processes("work", work, {0: ()}).wait()
        print("RuntimeError" in str(result.failures[0].message))

        if __name__ == "__main__":
            pass
        """
    done = run_script(tmp_path, source)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("method", NAMES)
def test_a_rank_has_the_name_and_the_parent_that_multiprocessing_would_give(tmp_path, method):
    specs = DefaultLogsSpecs(log_dir=str(tmp_path))
    result = start_processes(
        "who", who, {0: (), 1: ()}, {0: {}, 1: {}}, specs, start_method=method
    ).wait(60)
    (first, number), (second, next_number) = [
        v[0].split("-") for v in result.return_values.values()
    ]
    assert first == second == NAMES[method]
    assert int(next_number) == int(number) + 1
    us = multiprocessing.current_process().name, os.getpid()
    assert [v[1:] for v in result.return_values.values()] == [(False, *us, True)] * 2
    assert multiprocessing.active_children() == []
