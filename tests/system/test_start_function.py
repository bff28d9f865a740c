import functools
import threading

import pytest
from rankwork import Scale, double, environment, give

import procession
from support import METHODS, failure_of, write


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


def test_fork_carries_live_state():
    lock = threading.Lock()  # nothing could pickle it
    seen = []

    def work():
        with lock:
            seen.append(1)
        return len(seen)

    assert procession.run(work, nproc=3, start_method="fork") == [1, 1, 1]
    assert seen == []


def test_local_modules_go_before_ours(tmp_path):
    """As they would for a new interpreter, which has not loaded the library's module yet."""
    write(tmp_path / "json.py", "mine = True\n")
    write(tmp_path / "traceback.py", "mine = True\n")
    script = write(
        tmp_path / "main.py",
        """
        import json, traceback, procession
        assert json.mine and traceback.mine
        procession.beat(1, loss=2)
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
