"""How processes start: methods, arguments, surroundings, and what is refused before anything."""

import ast
import multiprocessing
import os
import sys
from multiprocessing import shared_memory

import facework
import pytest
from facesupport import METHODS, ending, notes, tidy  # noqa: F401

import procession
import procession.multiprocessing as mp
from seams.prepare import jobs
from support import run_python, until, write


def run(fn, *args, nprocs=2, **options):
    return mp.start_processes(fn, args, nprocs=nprocs, **options)


@pytest.mark.parametrize("method", METHODS)
def test_called_with_its_number_and_the_arguments(tmp_path, method):
    run(facework.tell, str(tmp_path), 7, "x", nprocs=3, start_method=method)
    assert notes(tmp_path, 3) == ["(7, 'x')"] * 3


def test_one_process_by_default(tmp_path):
    assert mp.spawn(facework.tell, (str(tmp_path),)) is None
    assert os.listdir(tmp_path) == ["0"]


@pytest.mark.parametrize("kind", [list, iter])
def test_arguments_in_any_iterable(tmp_path, kind):
    run_args = kind([str(tmp_path), 1])
    mp.spawn(facework.tell, args=run_args, nprocs=2)
    assert notes(tmp_path, 2) == ["(1,)"] * 2


@pytest.mark.parametrize("join", [True, False])
def test_no_processes_at_all(join):
    """As the original: nothing is done, and all of nothing is joined."""
    group = mp.start_processes(facework.nothing, nprocs=0, join=join)
    assert group is None if join else group.join() is True


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fn": "train.py"}, "'train.py'"),
        ({"args": 5}, "args"),
        ({"nprocs": -1}, "-1"),
        ({"nprocs": 2.0}, "2.0"),
        ({"start_method": "nope"}, "cannot find context for 'nope'"),
    ],
)
def test_refused_before_anything_starts(options, said):
    before = multiprocessing.active_children()
    with pytest.raises(procession.SpecError, match=said) as caught:
        mp.start_processes(**{"fn": facework.nothing, "nprocs": 2, **options})
    assert "\n" not in str(caught.value)
    assert multiprocessing.active_children() == before


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_an_argument_that_cannot_be_pickled_is_named(method):
    """The original has started other processes by then, and leaves them."""
    import threading

    with pytest.raises(procession.SpecError, match=r"argument 2 \(lock\)"):
        run(facework.nothing, 1, threading.Lock(), start_method=method)


def test_spawn_warns_of_another_method_and_does_not_follow(tmp_path):
    said = "This method only supports start_method=spawn.*start_processes"
    with pytest.warns(FutureWarning, match=said) as caught:
        mp.spawn(facework.identity, (str(tmp_path),), start_method="fork")
    assert caught[0].filename == __file__
    assert notes(tmp_path, 1)[0].startswith("('SpawnProcess-")


@pytest.mark.parametrize("method", METHODS)
def test_no_start_method_is_the_one_of_multiprocessing(tmp_path, monkeypatch, method):
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda: method)
    mp.start_processes(facework.identity, (str(tmp_path),), start_method=None)
    started = {"fork": "Fork", "spawn": "Spawn", "forkserver": "ForkServer"}[method]
    assert notes(tmp_path, 1)[0].startswith(f"('{started}Process-")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("daemon", [False, True])
def test_identity(tmp_path, method, daemon):
    group = run(facework.identity, str(tmp_path), start_method=method, daemon=daemon, join=False)
    until(group.join)
    for process, told in zip(group.processes, notes(tmp_path, 2), strict=True):
        number = int(process.name.partition("-")[2])
        assert ast.literal_eval(told) == (
            process.name,
            daemon,
            (number,),
            "MainProcess",
            os.getpid(),
            True,
        )
        assert process.daemon is daemon


@pytest.mark.parametrize("method", METHODS)
def test_environment_is_the_callers(tmp_path, method, monkeypatch):
    """Variables of torchrun would make programs that use `spawn` take themselves for others."""
    monkeypatch.setenv("MASTER_PORT", "12355")
    monkeypatch.setenv("MINE", "yes")
    run(facework.environment, str(tmp_path), start_method=method)
    for told in notes(tmp_path, 2):
        env = ast.literal_eval(told)
        assert env.pop("PROCESSION_RUN")
        assert env.pop("PROCESSION_BOARD")
        assert env.pop("PROCESSION_LAUNCHER")
        locale = env.pop("LC_CTYPE", None)  # which Python sets itself, where it starts anew
        if method == "fork":
            assert locale == os.environ.get("LC_CTYPE")
        env["LC_CTYPE"] = os.environ.get("LC_CTYPE")
        assert env == {**os.environ, "LC_CTYPE": os.environ.get("LC_CTYPE")}


@pytest.mark.parametrize("method", METHODS)
def test_streams_are_the_callers_without_a_prefix(method, capfd):
    run(facework.streams, start_method=method)
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == ["rank 0 reads ''", "rank 1 reads ''"]
    assert sorted(err.splitlines()) == ["rank 0 complains", "rank 1 complains"]


@pytest.mark.parametrize("method", METHODS)
def test_lines_of_several_ranks_stay_whole(method, capfd):
    run(facework.print_in_pieces, start_method=method)
    out, err = capfd.readouterr()
    for i in range(2):
        line = f"{i}{' and' * 50}"
        assert out.splitlines().count(line) == err.splitlines().count(line) == 100


@pytest.mark.parametrize("parallel", ["0", "1"])
def test_parallel_start_may_be_asked_for(tmp_path, monkeypatch, parallel):
    assert mp.ENV_VAR_PARALLEL_START == "TORCH_MP_PARALLEL_START"
    monkeypatch.setenv(mp.ENV_VAR_PARALLEL_START, parallel)
    run(facework.tell, str(tmp_path), nprocs=3, start_method="forkserver")
    assert notes(tmp_path, 3) == ["()"] * 3


def test_a_start_that_fails_leaves_nothing_and_does_not_wait(monkeypatch, tmp_path):
    """Though a failure of another kind would leave the other ranks alone until somebody joins."""
    from procession.multiprocessing.spawn import launch
    from seams.prepare import fresh_interpreter

    os.symlink(sys.executable, tmp_path / "this-python")
    words = ["this-python", *fresh_interpreter()[1:]]
    monkeypatch.setattr(jobs, "fresh_interpreter", lambda: words)
    # Variables that an interpreter reads when it starts, and that differ: each gets one of its own.
    env = [
        {"PATH": str(tmp_path), "PYTHONHASHSEED": "1"},
        {"PATH": "/nowhere", "PYTHONHASHSEED": "2"},
    ]
    with pytest.raises(procession.StartFailed, match="rank 1 of 2"):
        launch(facework.pause, (), 2, True, False, "spawn", env)


# -- children of ranks


def test_daemonic_processes_cannot_have_children(tmp_path):
    for fn, said in (
        (facework.child_of_multiprocessing, "AssertionError: daemonic"),
        (facework.nested, "AssertionError: a daemonic process must not have children"),
    ):
        with pytest.raises(mp.ProcessRaisedException, match=said):
            mp.spawn(fn, (str(tmp_path),), daemon=True)


@pytest.mark.parametrize("method", METHODS)
def test_others_can(tmp_path, method):
    run(facework.child_of_multiprocessing, str(tmp_path), start_method=method)
    assert notes(tmp_path, 2) == ["0", "0"]


@pytest.mark.parametrize("method", METHODS)
def test_a_group_in_a_rank(tmp_path, method):
    run(facework.nested, str(tmp_path), nprocs=1, start_method=method)
    assert notes(tmp_path, 2) == ["('nested',)"] * 2


# -- what `multiprocessing` shares


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["SimpleQueue", "Queue", "JoinableQueue"])
def test_queues(method, kind):
    queue = getattr(mp.get_context(method), kind)()
    run(facework.put_each, queue, "hello", start_method=method)
    assert sorted(queue.get() for _ in range(2)) == [(0, "hello"), (1, "hello")]
    queue.close()
    if kind != "SimpleQueue":
        queue.join_thread()


def test_a_queue_of_another_kind_is_refused():
    queue = mp.get_context("fork").SimpleQueue()
    with pytest.raises(procession.SpecError, match="get_context"):
        run(facework.put_each, queue, "hello")
    queue.close()


@pytest.mark.parametrize("method", METHODS)
def test_events(method):
    here, there = mp.get_context(method).Event(), mp.get_context(method).Event()
    group = run(facework.answer_event, here, there, nprocs=1, start_method=method, join=False)
    with ending(group):
        here.set()
        assert there.wait(20)
        until(group.join)


@pytest.mark.parametrize("method", METHODS)
def test_shared_memory(method):
    memory = shared_memory.SharedMemory(create=True, size=16)
    try:
        run(facework.mark_memory, memory, start_method=method)
        assert bytes(memory.buf[:3]) == b"\1\2\0"
    finally:
        memory.close()
        memory.unlink()


@pytest.mark.parametrize("method", METHODS)
def test_managers(method):
    with mp.get_context("spawn").Manager() as manager:
        table = manager.dict()
        run(facework.fill_table, table, start_method=method)
        assert dict(table) == {0: "0", 1: "1"}


@pytest.mark.parametrize("method", METHODS)
def test_locks_and_values(tmp_path, method):
    """In a process of its own: `multiprocessing` keeps the memory of a Value for the next one."""
    script = write(
        tmp_path / "main.py",
        f"""
        import procession.multiprocessing as mp

        def work(i, locks, value, array, barrier):
            for _ in range(100):
                with locks[0], locks[1], locks[2]:
                    array[i] += 1.5
                with value.get_lock():
                    value.value += 1
            barrier.wait(20)

        if __name__ == "__main__":
            c = mp.get_context("{method}")
            value, array = c.Value("i", 0), c.Array("d", 2)
            locks = (c.Lock(), c.RLock(), c.Semaphore(1))
            args = (locks, value, array, c.Barrier(3))
            mp.start_processes(work, args, nprocs=2, join=False, start_method="{method}")
            args[3].wait(20)
            print(value.value, list(array))
        """,
    )
    done = run_python(script)
    assert (done.stdout, done.stderr) == ("200 [150.0, 150.0]\n", "")


@pytest.mark.parametrize("method", METHODS)
def test_connections(method):
    ours, theirs = mp.get_context(method).Pipe()
    group = run(facework.answer, theirs, nprocs=1, start_method=method, join=False)
    with ending(group):
        theirs.close()
        ours.send(20)
        assert ours.recv() == 21
        until(group.join)
        with pytest.raises(EOFError):
            ours.recv()
    ours.close()


@pytest.mark.parametrize("how", ["well", "badly"])
def test_a_group_that_is_over_before_anybody_listens(monkeypatch, how):
    hear = procession.Group.hear

    def late(group, call):
        if how == "badly":
            group.expire()
        until(lambda: group.state.final)
        hear(group, call)

    monkeypatch.setattr(procession.Group, "hear", late)
    group = run(facework.exit_in, 0, 0 if how == "well" else 5, nprocs=1, join=False)
    assert [p.exitcode for p in group.processes] == [0 if how == "well" else 5]
    if how == "badly":
        with pytest.raises(mp.ProcessExitedException):
            group.join()
    else:
        assert group.join()


def test_variables_by_rank(tmp_path):
    """For those who build on this: what each rank begins with."""
    from procession.multiprocessing.spawn import launch

    env = [{"MINE": str(i), "MASTER_ADDR": "here", "HOME": None} for i in range(2)]
    launch(facework.environment, (str(tmp_path),), 2, True, False, "spawn", env)
    for i, told in enumerate(notes(tmp_path, 2)):
        found = ast.literal_eval(told)
        assert (found["MINE"], found["MASTER_ADDR"]) == (str(i), "here")
        assert "HOME" not in found
        assert "MASTER_PORT" not in found
