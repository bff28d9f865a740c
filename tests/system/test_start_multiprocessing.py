"""What `multiprocessing` shares between a launcher and its ranks, and what it refuses."""

import gc
import multiprocessing

import pytest

import procession
from support import METHODS, run_python, write


@pytest.fixture(autouse=True)
def no_tracker_left():
    """End multiprocessing's own helper, which would outlive the test."""
    from multiprocessing import resource_tracker

    yield
    gc.collect()  # locks take their names away when they go, and tell the tracker
    resource_tracker._resource_tracker._stop()


# In a process of its own: multiprocessing keeps the memory of a Value for the next one.
SHARED = """
    import multiprocessing, os, sys
    from multiprocessing import shared_memory
    import procession

    context = multiprocessing.get_context("spawn")

    def work(queues, chain, events, locks, numbers, barrier, connection, memory, table):
        rank = int(os.environ["RANK"])
        for queue in queues:
            queue.put((rank, "text"))
        answer = chain.put(41) if rank == 0 else chain.get(timeout=20) + 1
        ready, go = events
        ready.set()
        assert go.wait(20)
        value, raw, array = numbers
        for _ in range(100):
            with locks[0], locks[1], locks[2], locks[3], locks[4]:
                raw.value += 1
            with value.get_lock():
                value.value += 1
        array[rank] = rank + 0.5
        connection.send(("hello", connection.recv()))
        connection.close()
        memory.buf[rank] = 7
        by_name = shared_memory.SharedMemory(memory.name)
        by_name.buf[2 + rank] = 8
        by_name.close()
        table[rank] = answer
        barrier.wait(20)
        return answer

    if __name__ == "__main__":
        kinds = (context.Queue, context.SimpleQueue, context.JoinableQueue)
        queues, chain = [kind() for kind in kinds], context.Queue()
        ready, go = context.Event(), context.Event()
        locks = (context.Lock(), context.RLock(), context.Semaphore(1),
                 context.BoundedSemaphore(1), context.Condition())
        numbers = (context.Value("i", 0), context.RawValue("i", 0), context.Array("d", 2))
        memory = shared_memory.SharedMemory(create=True, size=64)
        with context.Manager() as manager:
            table = manager.dict()
            for _ in range(2):  # the end of the first group takes nothing away
                pairs, barrier = [context.Pipe() for _ in range(2)], context.Barrier(2)
                args = {
                    rank: (queues, chain, (ready, go), locks, numbers, barrier,
                           pairs[rank][1], memory, table)
                    for rank in range(2)
                }
                group = procession.start(work, args=args, nproc=2, start_method=sys.argv[1])
                for _, theirs in pairs:
                    theirs.close()
                assert ready.wait(20)
                go.set()
                for rank, (ours, _) in enumerate(pairs):
                    ours.send(rank)
                    print(ours.recv())
                print(group.wait().values, [sorted([q.get(), q.get()]) for q in queues])
                for ours, _ in pairs:
                    try:
                        ours.recv()
                    except EOFError:  # nobody keeps a copy of what was handed over
                        print("closed")
            print(sorted(table.items()))
        print(numbers[0].value, numbers[1].value, list(numbers[2]), list(memory.buf[:4]))
        memory.close()
        memory.unlink()
    """
ONCE = """('hello', 0)
('hello', 1)
[None, 42] [[(0, 'text'), (1, 'text')], [(0, 'text'), (1, 'text')], [(0, 'text'), (1, 'text')]]
closed
closed
"""


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_everything_that_can_be_shared(tmp_path, method):
    done = run_python(write(tmp_path / "main.py", SHARED), method, timeout=60)
    last = "[(0, None), (1, 42)]\n400 400 [0.5, 1.5] [7, 7, 8, 8]\n"
    assert (done.stdout, done.stderr) == (2 * ONCE + last, "")


@pytest.mark.parametrize("method", METHODS[:2])
def test_fork_context_is_refused_in_one_clear_line(method):
    kinds = ("Lock", "RLock", "Semaphore", "Condition", "Event", "Queue", "SimpleQueue")
    for kind in kinds:
        thing = getattr(multiprocessing.get_context("fork"), kind)()
        with pytest.raises(procession.SpecError) as caught:
            procession.run(print, args=(1, thing), nproc=2, start_method=method)
        text = str(caught.value)
        assert "\n" not in text
        assert "argument 1" in text
        assert "get_context('spawn')" in text
        assert "start_method='fork'" in text
        if kind.endswith("Queue"):  # the exception's frames hold it
            thing._reader.close()
            thing._writer.close()
