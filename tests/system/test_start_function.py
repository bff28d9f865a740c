import contextvars
import functools
import os
import subprocess
import sys
import threading

import pytest
from rankwork import Scale, double, environment, give, whoami

import procession
from procession import ProcessionError
from support import failure_of, run_python, write

METHODS = ("forkserver", "spawn", "fork")


def outer(by):
    def inner(x):
        return by * x

    return inner


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "call",
    [
        double,
        lambda x: 2 * x,
        outer(2),
        functools.partial(lambda a, b: a * b, 2),
        Scale(2),
        Scale(2).method,
        functools.partial(double),
    ],
    ids=["function", "lambda", "closure", "partial", "callable", "method", "partial-by-name"],
)
def test_any_callable(call, method):
    assert procession.run(call, args=(21,), nproc=2, start_method=method) == [42, 42]


@pytest.mark.parametrize("method", METHODS)
def test_class_and_static_methods_and_builtins(method):
    assert procession.run(Scale.of_class, args=(1,), start_method=method) == [("Scale", 1)]
    assert procession.run(Scale.static, args=(1,), start_method=method) == [("static", 1)]
    assert procession.run(sum, args=([1, 2],), start_method=method) == [3]


def test_a_class_is_callable():
    (made,) = procession.run(Scale, args=(3,))
    assert made.by == 3


MAIN = """
    import procession
    {before}
    class Thing:
        scale = 10
        def __init__(self, n):
            self.n = n
        def times(self, x):
            return self.n * x * self.scale

    def helper(x):
        return x + FACTOR

    FACTOR = 100

    def work(x):
        return Thing(helper(x)).times(1)

    def make(x):
        return Thing(x)

    print(procession.run(work, args=(1,), nproc=2, start_method={method!r}))
    print(procession.run(Thing(5).times, args=(2,), nproc=2, start_method={method!r}))
    things = procession.run(make, args=(7,), nproc=2, start_method={method!r})
    print([type(t) is Thing and t.n for t in things])
    print(procession.run(lambda: __name__, nproc=1, start_method={method!r}))
"""


@pytest.mark.parametrize("method", METHODS)
def test_script_without_a_guard(tmp_path, method):
    script = write(tmp_path / "main.py", MAIN.format(method=method, before=""))
    done = run_python(script)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[1010, 1010]", "[100, 100]", "[7, 7]", "['__main__']"]


@pytest.mark.parametrize("method", METHODS)
def test_source_from_a_pipe_and_from_the_command_line(method):
    source = (
        "import procession\n"
        "def f(x): return x + 1\n"
        f"print(procession.run(f, args=(1,), nproc=2, start_method={method!r}))\n"
    )
    assert run_python("-c", source).stdout == "[2, 2]\n"
    assert run_python("-", input=source).stdout == "[2, 2]\n"


def test_function_of_a_module_that_only_the_changed_path_finds(tmp_path, monkeypatch):
    write(tmp_path / "place" / "rare_module_of_a_test.py", "def f(x):\n    return x * 3\n")
    monkeypatch.syspath_prepend(str(tmp_path / "place"))
    import rare_module_of_a_test

    for method in METHODS:
        assert procession.run(rare_module_of_a_test.f, args=(2,), start_method=method) == [6]
    sys.modules.pop("rare_module_of_a_test")


def test_a_relative_entry_of_the_path_is_still_found_in_another_directory(tmp_path, monkeypatch):
    write(tmp_path / "place" / "rare_relative_module.py", "def f(x):\n    return x * 3\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("place")
    import rare_relative_module

    try:
        assert procession.run(rare_relative_module.f, args=(2,), cwd=tmp_path / "elsewhere") == [6]
    finally:
        sys.modules.pop("rare_relative_module")


@pytest.mark.parametrize("method", METHODS)
def test_arguments_common_and_by_rank(method):
    common = procession.run(give, args=(1, "a"), kwargs={"k": 2}, nproc=2, start_method=method)
    assert common == [((1, "a"), {"k": 2})] * 2
    by_rank = procession.run(
        give,
        args={0: (1,), 1: [2, 3]},
        kwargs={1: {"k": 4}},
        nproc=2,
        start_method=method,
    )
    assert by_rank == [((1,), {}), ((2, 3), {"k": 4})]


def test_large_arguments():
    blob = os.urandom(1 << 20) * 30
    values = procession.run(lambda b, a: (len(b), b == a), args=(blob, blob), nproc=2)
    assert values == [(30 << 20, True)] * 2


@pytest.mark.parametrize("method", METHODS)
def test_environment_common_by_rank_and_taken_away(method, monkeypatch):
    monkeypatch.setenv("HERE_BEFORE", "1")
    monkeypatch.setenv("TO_CHANGE", "old")
    common = procession.run(
        environment,
        env={"NEW": "x=y", "TO_CHANGE": "new", "HERE_BEFORE": None, "EMPTY": ""},
        nproc=2,
        start_method=method,
    )
    for env in common:
        assert "HERE_BEFORE" not in env
        assert (env["NEW"], env["TO_CHANGE"], env["EMPTY"]) == ("x=y", "new", "")
    first, second = procession.run(
        environment, env={0: {"HERE_BEFORE": None}, 1: {"NEW": "1"}}, nproc=2, start_method=method
    )
    assert "HERE_BEFORE" not in first
    assert second["HERE_BEFORE"] == second["NEW"] == "1"
    assert "NEW" not in first


@pytest.mark.parametrize("method", METHODS)
def test_children_of_a_rank_see_its_environment(method):
    def child():
        return subprocess.run(
            ["sh", "-c", 'echo "$MINE/${HOME-none}/$RANK"'],
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    values = procession.run(child, env={"MINE": "yes", "HOME": None}, nproc=2, start_method=method)
    assert values == ["yes/none/0\n", "yes/none/1\n"]


@pytest.mark.parametrize("method", METHODS)
def test_directory(tmp_path, monkeypatch, method):
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    here, there = str(tmp_path), str(tmp_path / "a")
    assert procession.run(os.getcwd, start_method=method) == [here]
    assert procession.run(os.getcwd, cwd=tmp_path / "a", start_method=method) == [there]
    assert procession.run(os.getcwd, cwd="a", start_method=method) == [there]


@pytest.mark.parametrize("method", METHODS)
def test_one_rank_and_many(method):
    assert procession.run(whoami, nproc=1, start_method=method) == [0]
    many = 12 if method == "spawn" else 48
    assert procession.run(whoami, nproc=many, start_method=method) == list(range(many))


def test_fork_carries_live_state():
    import threading

    lock = threading.Lock()  # nothing could pickle it
    seen = []

    def work():
        with lock:
            seen.append(1)
        return len(seen)

    assert procession.run(work, nproc=3, start_method="fork") == [1, 1, 1]
    assert seen == []


def test_name_of_the_group():
    with procession.start(whoami, name="my group") as group:
        assert "my group" in repr(group)
        group.wait()
    with procession.start(whoami) as group:
        assert "whoami" in repr(group)
    with pytest.raises(procession.GroupFailed, match=r"\Amy group failed: "):
        procession.run(["false"], name="my group")


def test_ranks_are_processes_of_their_own():
    pids = procession.run(os.getpid, nproc=4)
    assert len({*pids, os.getpid()}) == 5


def test_functions_see_the_launchers_argv(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["prog", "-x", "1"])
    assert procession.run(lambda: __import__("sys").argv) == [["prog", "-x", "1"]]


def test_ranks_from_functions_start_equal_random_generators_nowhere():
    def draw():
        import random

        return random.random()

    assert len(set(procession.run(draw, nproc=4))) == 4


def test_deep_arguments_and_recursion():
    nested = []
    for _ in range(400):
        nested = [nested]

    def depth(n):
        count = 0
        while n:
            n, count = n[0], count + 1
        return count

    assert procession.run(depth, args=(nested,)) == [400]


# -- the launcher's __main__ in a rank


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_what_is_in_main_can_be_pickled_in_a_rank(tmp_path, method):
    main = write(
        tmp_path / "main.py",
        f"""
        import multiprocessing, pickle, procession

        class Net:
            size = 3

        def square(x):
            return x * x

        def work(given):
            copy = pickle.loads(pickle.dumps([Net(), given, square]))
            with multiprocessing.get_context("fork").Pool(2) as pool:
                return copy[0].size, copy[1].size, pool.map(square, range(3))

        print(procession.run(work, args=(Net(),), start_method={method!r})[0])
        """,
    )
    done = run_python(main)
    assert done.stdout == "(3, 3, [0, 1, 4])\n", done.stderr


def test_local_modules_go_before_ours(tmp_path):
    """As they would for a new interpreter, which has not loaded the library's module yet."""
    write(tmp_path / "json.py", "mine = True\n")
    write(tmp_path / "traceback.py", "mine = True\n")
    script = write(
        tmp_path / "main.py",
        """
        import json, traceback
        assert json.mine and traceback.mine
        raise ValueError("with mine")
        """,
    )
    failed = failure_of(procession.Script(str(script)), nproc=2)
    assert failed.cause.type_name == "ValueError"
    assert 'raise ValueError("with mine")' in failed.cause.traceback


def test_traceback_of_code_that_is_in_no_file():
    """As in a notebook: the launcher knows the lines, the ranks are told."""
    import linecache

    source = "def cell():\n    raise ValueError('in a cell')\n"
    linecache.cache["<cell 1>"] = (len(source), None, source.splitlines(True), "<cell 1>")
    scope = {"__name__": "__main__"}
    exec(compile(source, "<cell 1>", "exec"), scope)
    try:
        failed = failure_of(scope["cell"], nproc=2)
    finally:
        del linecache.cache["<cell 1>"]
    assert "raise ValueError('in a cell')" in failed.cause.traceback


TENANT = contextvars.ContextVar("TENANT", default="nobody")


class OfCaller:
    """Its pickle says who made it, and where."""

    def __init__(self):
        self.told = None

    def __getstate__(self):
        return {"told": (TENANT.get(), threading.current_thread().name)}


def told_of(thing):
    return thing.told


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_arguments_are_pickled_in_the_thread_and_context_of_the_caller(method):
    values = []

    def call():
        TENANT.set("alice")
        values.extend(procession.run(told_of, args=(OfCaller(),), nproc=2, start_method=method))

    thread = threading.Thread(target=call, name="the caller's")
    thread.start()
    thread.join()
    assert values == [("alice", "the caller's")] * 2


class Interrupts:
    def __reduce__(self):
        raise KeyboardInterrupt


def test_an_interrupt_while_arguments_are_pickled_leaves_nothing():
    with pytest.raises(KeyboardInterrupt):
        procession.run(told_of, args=(Interrupts(),), nproc=2)


class Exits:
    def __init__(self, launcher):
        self.launcher = launcher

    def __reduce__(self):
        return _exit_in, (self.launcher,)


def _exit_in(pid):
    if os.getpid() == pid:
        raise SystemExit(0)


def test_a_value_whose_unpickling_exits_does_not_end_the_launcher_without_a_word():
    with pytest.raises(ProcessionError, match="rank 0 cannot be unpickled here: SystemExit: 0"):
        procession.run(Exits, args=(os.getpid(),), nproc=2)
