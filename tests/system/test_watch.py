"""Waiting, looking, and the order of events."""

import asyncio
import os
import signal
import threading
import time

import pytest
from rankwork import whoami

import procession
from procession import Phase
from support import OBEDIENT, alive, until


def test_timeout_leaves_the_group_running():
    group = procession.start(["sleep", "100"], nproc=2, name="slow", stop=OBEDIENT)
    with group:
        before = time.monotonic()
        with pytest.raises(TimeoutError, match="slow still runs"):
            group.wait(0.05)
        assert 0.04 < time.monotonic() - before < 3
        assert group.state is Phase.RUNNING
        assert all(alive(p) for p in group.pids().values())
        with pytest.raises(TimeoutError):
            group.wait(timeout=0)


def test_run_with_a_timeout_stops_the_group():
    with pytest.raises(TimeoutError, match="was stopped"):
        procession.run(["sleep", "100"], nproc=2, timeout=0.05, stop=OBEDIENT)
    assert procession.run(whoami, nproc=2, timeout=30) == [0, 1]


@pytest.mark.parametrize("timeout", [None, 60])
def test_an_exception_of_the_caller_comes_out_as_it_is(timeout):
    def limit(*_):
        raise TimeoutError("of the caller")

    def tell(event):
        if event.kind == "running":
            signal.raise_signal(signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, limit)
    try:
        with pytest.raises(TimeoutError, match=r"^of the caller$"):
            procession.run(["sleep", "100"], stop=OBEDIENT, timeout=timeout, on_event=tell)
    finally:
        signal.signal(signal.SIGALRM, before)


# -- asyncio


def test_await_does_not_block_the_loop(tmp_path):
    """The rank ends when the loop has gone round ten times meanwhile."""

    async def main():
        group = procession.start(["cat", tmp_path / "fifo"], stop=OBEDIENT)

        async def beat():
            for _ in range(10):
                await asyncio.sleep(0.005)
            with open(tmp_path / "fifo", "w"):
                pass

        task = asyncio.create_task(beat())
        await group
        assert task.done()

    os.mkfifo(tmp_path / "fifo")
    asyncio.run(main())


def test_group_that_nobody_holds_goes_on_and_ends():
    pid = procession.start(["sleep", "100"], stop=OBEDIENT).pids()[0]
    import gc

    gc.collect()
    assert alive(pid)
    os.kill(pid, signal.SIGTERM)
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("procession")])
    assert not alive(pid)


def test_nothing_is_done_while_nothing_happens():
    """No polling: the launcher and the agent use no processor time while ranks sleep."""

    def switches(pid):
        total = 0
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/status") as f:
                total += sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
        return total

    with procession.start(["sleep", "100"], nproc=4, stop=OBEDIENT) as group:
        with open(f"/proc/{group.pids()[0]}/stat") as f:
            agent = int(f.read().rpartition(")")[2].split()[1])
        until(lambda: group.state is Phase.RUNNING)
        mine = [t.native_id for t in threading.enumerate() if t.name.startswith("procession")]

        def all_switches():
            return switches(agent), *map(_switches_of, mine)

        def unchanged(seconds):
            before = all_switches()
            time.sleep(seconds)  # the span that is looked at
            return all_switches() == before

        # What the start left to do may come late on a busy machine; what polls never ends.
        until(lambda: unchanged(0.5), "half a second in which nothing is done")


def _switches_of(tid):
    with open(f"/proc/self/task/{tid}/status") as f:
        return sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
