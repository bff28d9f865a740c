import gc
import multiprocessing
import subprocess
from collections import Counter
from multiprocessing import shared_memory

import numpy as np
import pytest

import procession
from support import PYTHON, descriptors, run_python, write

SPAWN = multiprocessing.get_context("spawn")
METHODS = ("forkserver", "spawn", "fork")
BY_PICKLE = ("forkserver", "spawn")


@pytest.fixture(autouse=True)
def no_tracker_left():
    """End multiprocessing's own helper, which would outlive the test."""
    from multiprocessing import resource_tracker

    yield
    gc.collect()  # locks take their names away when they go, and tell the tracker
    resource_tracker._resource_tracker._stop()


def by_rank(call):
    """Give a function of rank and arguments, as one that goes by value."""

    def work(*args):
        import os

        return call(int(os.environ["RANK"]), *args)

    return work


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue", "JoinableQueue"])
def test_queues(method, kind):
    queue = getattr(SPAWN, kind)()
    procession.run(
        by_rank(lambda r, q: q.put((r, "x" * 10))), args=(queue,), nproc=3, start_method=method
    )
    options = {} if kind == "SimpleQueue" else {"timeout": 5}
    assert sorted(queue.get(**options) for _ in range(3)) == [(r, "x" * 10) for r in range(3)]
    queue.close()
    if kind != "SimpleQueue":
        queue.join_thread()


@pytest.mark.parametrize("method", METHODS)
def test_queue_between_ranks(method):
    queue = SPAWN.Queue()
    answer = procession.run(
        by_rank(lambda r, q: q.put(41) if r == 0 else q.get(timeout=5) + 1),
        args=(queue,),
        nproc=2,
        start_method=method,
    )
    assert answer == [None, 42]
    queue.close()
    queue.join_thread()


@pytest.mark.parametrize("method", METHODS)
def test_event(method):
    ready, go = SPAWN.Event(), SPAWN.Event()

    def work(ready, go):
        ready.set()
        return go.wait(20)

    with procession.start(work, args=(ready, go), nproc=2, start_method=method) as group:
        assert ready.wait(20)
        go.set()
        assert group.wait().values == [True, True]


@pytest.mark.parametrize("method", METHODS)
def test_locks_and_values(tmp_path, method):
    """In a process of its own: multiprocessing keeps the memory of a Value for the next one."""
    script = write(
        tmp_path / "main.py",
        f"""
        import multiprocessing, os, procession
        c = multiprocessing.get_context("spawn")

        def work(locks, value, array, raw, barrier):
            for _ in range(100):
                with locks[0], locks[1], locks[2], locks[3], locks[4]:
                    raw.value += 1
                with value.get_lock():
                    value.value += 1
            array[int(os.environ["RANK"])] = 1.5
            barrier.wait(20)

        barrier = c.Barrier(3)
        locks = (c.Lock(), c.RLock(), c.Semaphore(1), c.BoundedSemaphore(1), c.Condition())
        value, array, raw = c.Value("i", 0), c.Array("d", 3), c.RawValue("i", 0)
        args = locks, value, array, raw, barrier
        procession.run(work, args=args, nproc=3, start_method={method!r})
        print(value.value, raw.value, list(array))
        """,
    )
    done = run_python(script)
    assert (done.stdout, done.stderr) == ("300 300 [1.5, 1.5, 1.5]\n", "")


@pytest.mark.parametrize("method", METHODS)
def test_pipe_connections_by_rank(method):
    pairs = [SPAWN.Pipe() for _ in range(2)]

    def work(connection):
        connection.send(("hello", connection.recv()))

    args = {r: (pairs[r][1],) for r in range(2)}
    with procession.start(work, args=args, nproc=2, start_method=method) as group:
        for r in range(2):
            pairs[r][0].send(r)
        assert [pairs[r][0].recv() for r in range(2)] == [("hello", 0), ("hello", 1)]
        group.wait()
    for pair in pairs:
        for end in pair:
            end.close()


@pytest.mark.parametrize("method", METHODS)
def test_a_closed_pipe_is_seen_as_closed(method):
    """Nobody keeps a copy of a connection that was handed over."""
    ours, theirs = SPAWN.Pipe()
    with procession.start(lambda c: c.close(), args=(theirs,), start_method=method) as group:
        theirs.close()
        group.wait()
        with pytest.raises(EOFError):
            ours.recv()
    ours.close()


@pytest.mark.parametrize("method", METHODS)
def test_shared_memory_survives_the_ranks(method):
    memory = shared_memory.SharedMemory(create=True, size=1024)
    try:

        def work(memory):
            import os

            memory.buf[int(os.environ["RANK"])] = 7

        for _ in range(2):  # the first group's end must not take it away
            procession.run(work, args=(memory,), nproc=3, start_method=method)
            assert bytes(memory.buf[:4]) == b"\7\7\7\0"
    finally:
        memory.close()
        memory.unlink()


@pytest.mark.parametrize("method", METHODS)
def test_shared_memory_by_name(method):
    memory = shared_memory.SharedMemory(create=True, size=64)
    try:

        def work(name):
            from multiprocessing import shared_memory

            mine = shared_memory.SharedMemory(name)
            mine.buf[0] += 1
            mine.close()

        procession.run(work, args=(memory.name,), nproc=1, start_method=method)
        procession.run(work, args=(memory.name,), nproc=1, start_method=method)
        assert memory.buf[0] == 2
    finally:
        memory.close()
        memory.unlink()


@pytest.mark.parametrize("method", BY_PICKLE)
def test_shared_memory_that_a_rank_made(method):
    def work():
        import os
        from multiprocessing import shared_memory

        memory = shared_memory.SharedMemory(create=True, size=64)
        memory.buf[0] = 9 + int(os.environ["RANK"])
        memory.close()
        return memory.name

    shared_memory.SharedMemory(create=True, size=1).unlink()  # starts this process's tracker
    for r, name in enumerate(procession.run(work, nproc=2, start_method=method)):
        memory = shared_memory.SharedMemory(name)
        assert memory.buf[0] == 9 + r
        memory.close()
        memory.unlink()


@pytest.mark.parametrize("method", METHODS)
def test_manager_proxies(method):
    with SPAWN.Manager() as manager:
        table, items = manager.dict(), manager.list()

        def work(table, items):
            import os

            table[int(os.environ["RANK"])] = os.getpid()
            items.append(1)

        procession.run(work, args=(table, items), nproc=3, start_method=method)
        assert sorted(table.keys()) == [0, 1, 2]
        assert list(items) == [1, 1, 1]


def test_primitives_of_the_default_context_under_fork(tmp_path):
    script = write(
        tmp_path / "main.py",
        """
        import multiprocessing, procession
        queue, value = multiprocessing.Queue(), multiprocessing.Value("i", 0)
        lock, event = multiprocessing.Lock(), multiprocessing.Event()

        def work():
            with lock:
                value.value += 1
            queue.put(value.value)
            event.set()

        procession.run(work, nproc=3, start_method="fork")
        print(value.value, event.is_set(), len([queue.get(timeout=10) for _ in range(3)]))
        """,
    )
    done = run_python(script)
    assert (done.stdout, done.stderr) == ("3 True 3\n", "")


@pytest.fixture(params=["as it is", "unchecked"])
def semaphores(request, monkeypatch):
    """The locks of this CPython, and of one that pickles also those of the fork context."""
    if request.param == "unchecked":
        from multiprocessing import context, synchronize

        def state(self):
            context.assert_spawning(self)
            lock = self._semlock
            return lock.handle, lock.kind, lock.maxvalue, lock.name

        monkeypatch.setattr(synchronize.SemLock, "__getstate__", state)


@pytest.mark.usefixtures("semaphores")
@pytest.mark.parametrize(
    "wrap", [lambda thing: thing, lambda thing: [{"by value": thing, 1: wait}]]
)
@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_fork_context_is_refused_by_the_drop_in_for_multiprocessing(start, wrap):
    from procession.multiprocessing import start_processes

    thing = multiprocessing.get_context("fork").Event()
    before = eventfds()
    with pytest.raises((procession.SpecError, RuntimeError), match="fork context") as caught:
        start_processes(wait, args=(wrap(thing),), nprocs=1, start_method=start)
    assert caught.value  # an exception that is kept, with its frames, keeps nothing open
    assert eventfds() == before


def eventfds():
    """Count what the drop-in opens for each process that it is to start."""
    return Counter(descriptors().values())["anon_inode:[eventfd]"]


def wait(_, thing):
    thing.wait()


@pytest.mark.usefixtures("semaphores")
@pytest.mark.parametrize("method", BY_PICKLE)
@pytest.mark.parametrize(
    "kind",
    [
        "Lock",
        "RLock",
        "Semaphore",
        "Condition",
        "Queue",
        "SimpleQueue",
        "Event",
    ],
)
def test_fork_context_is_refused_in_one_clear_line(kind, method):
    thing = getattr(multiprocessing.get_context("fork"), kind)()
    with pytest.raises(procession.SpecError) as caught:
        procession.run(print, args=(1, thing), nproc=2, start_method=method)
    text = str(caught.value)
    assert "\n" not in text
    assert "argument 1" in text
    assert "get_context('spawn')" in text
    assert "start_method='fork'" in text
    if kind.endswith("Queue"):  # the exception's frames hold it: it would wait for the collector
        thing._reader.close()
        thing._writer.close()


@pytest.mark.parametrize("method", METHODS)
def test_children_of_multiprocessing_in_a_function_rank(method):
    def work():
        import math
        import multiprocessing

        answers = []
        for name in ("fork", "spawn", "forkserver"):
            with multiprocessing.get_context(name).Pool(2) as pool:
                answers.append(pool.map(math.sqrt, [4, 9]))
        return answers

    assert procession.run(work, nproc=1, start_method=method) == [[[2.0, 3.0]] * 3]


@pytest.mark.parametrize("method", METHODS)
def test_a_rank_may_launch_a_group(method):
    def outer():
        import os

        import procession

        return procession.run(lambda: int(os.environ["RANK"]), nproc=2)

    assert procession.run(outer, nproc=2, start_method=method) == [[0, 1], [0, 1]]


@pytest.mark.parametrize("method", METHODS)
def test_arrays(method):
    array = np.arange(12).reshape(3, 4)
    (value,) = procession.run(lambda a: a * 2, args=(array,), start_method=method)
    assert (value == array * 2).all()


@pytest.mark.torch
def test_torch_tensors_in_shared_memory(tmp_path):
    pytest.importorskip("torch")
    script = write(
        tmp_path / "main.py",
        """
        import torch, procession

        def work(t):
            import os
            t[int(os.environ["RANK"])] += 1

        t = torch.zeros(2).share_memory_()
        for method in ("forkserver", "fork"):
            procession.run(work, args=(t,), nproc=2, start_method=method)
        print(t.tolist())
        """,
    )
    done = run_python(script, timeout=55)
    assert (done.stdout, done.stderr) == ("[2.0, 2.0]\n", "")


def test_nothing_is_said_about_leaked_objects(tmp_path):
    script = write(
        tmp_path / "main.py",
        """
        import multiprocessing, procession
        from multiprocessing import shared_memory
        context = multiprocessing.get_context("spawn")
        memory = shared_memory.SharedMemory(create=True, size=10)
        lock = context.Lock()
        def work(memory, lock):
            with lock:
                memory.buf[0] += 1
        for method in ("forkserver", "spawn", "fork"):
            procession.run(work, args=(memory, lock), nproc=2, start_method=method)
        print(memory.buf[0])
        memory.close()
        memory.unlink()
        """,
    )
    done = subprocess.run(
        [PYTHON, str(script)], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout, done.stderr) == ("6\n", "")


# -- descriptors


def wait_for_end(pipe):
    try:
        pipe.recv()
    except EOFError:
        return "end"


def hold(pipe):
    import signal

    while True:
        signal.pause()


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_a_rank_sees_the_end_of_a_pipe_that_the_launcher_closes(method):
    """Nobody else holds it: neither other ranks nor what lies between."""
    ours, theirs = multiprocessing.Pipe()
    other, others = multiprocessing.Pipe()
    group = (
        procession.start(
            wait_for_end, args={0: (theirs,), 1: (others,)}, nproc=2, start_method=method
        )
        if method != "fork"
        else procession.start(
            lambda: (ours.close(), wait_for_end(theirs))[1], nproc=1, start_method=method
        )
    )
    for each in (theirs, others, ours, other):
        each.close()
    with group:
        assert set(group.wait(20).values) == {"end"}


def count_descriptors(_):
    import os

    return len(os.listdir("/proc/self/fd"))


def test_each_rank_has_the_descriptors_of_its_own_arguments_only():
    pipes = [multiprocessing.Pipe() for _ in range(12)]
    args = {rank: (ours,) for rank, (ours, _) in enumerate(pipes)}
    counts = procession.run(count_descriptors, args=args, nproc=12)
    for pair in pipes:
        for end in pair:
            end.close()
    assert max(counts) < 12
