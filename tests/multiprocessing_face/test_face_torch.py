"""torch: tensors in shared memory, its queues, collectives, and its own code on top of ours."""

import importlib.util

import pytest
from facesupport import METHODS, tidy  # noqa: F401

from support import run_python, write

# Not imported here: a test process with torch in it would make every test behind this one slow.
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]


@pytest.fixture(autouse=True)
def torch_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def said(tmp_path, source):
    done = run_python(write(tmp_path / "main.py", source), timeout=55)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_tensors_and_queues(tmp_path, method, strategy):
    source = f"""
        import torch
        import procession.multiprocessing as mp

        def work(i, shared, plain, tasks, answers, arrived):
            assert shared.is_shared()
            shared[i] += 10 * (i + 1)
            task = tasks.get()
            answers.put((i, task * plain.sum()))
            arrived.wait(40)  # the memory of the answer goes with this process

        if __name__ == "__main__":
            mp.set_sharing_strategy("{strategy}")
            shared = torch.ones(2).share_memory_()
            context = mp.get_context("{method}")
            tasks, answers, arrived = context.Queue(), context.Queue(), context.Event()
            args = (shared, torch.tensor([1.0, 2.0]), tasks, answers, arrived)
            group = mp.start_processes(
                work, args, nprocs=2, join=False, start_method="{method}"
            )
            for _ in range(2):  # not earlier: a fork while threads work may hang, here and there
                tasks.put(torch.arange(3.0))
            for i, answer in sorted(answers.get() for _ in range(2)):
                print(i, answer.tolist())
            arrived.set()
            while not group.join():
                pass
            print(shared.tolist())
        """
    assert said(tmp_path, source) == ["0 [0.0, 3.0, 6.0]", "1 [0.0, 3.0, 6.0]", "[11.0, 21.0]"]


@pytest.mark.parametrize("method", METHODS)
def test_all_reduce(tmp_path, method):
    source = f"""
        import os
        import torch
        import torch.distributed as dist
        import procession.multiprocessing as mp

        def work(i, nprocs, place):
            dist.init_process_group("gloo", init_method=place, rank=i, world_size=nprocs)
            value = torch.tensor([i + 1.0])
            dist.all_reduce(value)
            print(value.item())
            dist.destroy_process_group()

        if __name__ == "__main__":
            place = "file://{tmp_path}/rendezvous"
            mp.start_processes(work, (2, place), nprocs=2, start_method="{method}")
        """
    assert said(tmp_path, source) == ["3.0", "3.0"]


def test_a_rank_that_fails_in_a_collective_ends_the_others(tmp_path):
    source = f"""
        import torch
        import torch.distributed as dist
        import procession.multiprocessing as mp

        def work(i, place):
            dist.init_process_group("gloo", init_method=place, rank=i, world_size=2)
            if i == 1:
                raise ValueError("no more data")
            dist.all_reduce(torch.zeros(1))

        if __name__ == "__main__":
            try:
                mp.spawn(work, ("file://{tmp_path}/rendezvous",), nprocs=2)
            except mp.ProcessRaisedException as e:
                print(e.error_index, str(e).splitlines()[-1], type(e.__cause__).__name__)
        """
    script = write(tmp_path / "main.py", source)
    done = run_python(script, timeout=55)
    assert (done.returncode, done.stdout) == (0, "1 ValueError: no more data ValueError\n")


def test_the_process_layer_of_torch_elastic_on_ours(tmp_path):
    """It waits with `join(-1)`, looks at `processes`, and ends them by their pids."""
    source = """
        import logging, os, signal
        from torch.distributed.elastic.multiprocessing import api
        from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes
        import procession.multiprocessing as mp

        def double(n):
            return 2 * n

        def fail_or_pause(who):
            if int(os.environ["N"]) == who:
                raise ValueError("no such batch")
            while True:
                signal.pause()

        def start(name, call, args):
            return start_processes(
                name=name,
                entrypoint=call,
                args={i: args for i in range(2)},
                envs={i: {"N": str(i)} for i in range(2)},
                logs_specs=DefaultLogsSpecs(log_dir=os.environ["TMPDIR"] + "/logs"),
            )

        if __name__ == "__main__":
            logging.disable()
            api.mp = mp
            good = start("good", double, (21,))
            print(sorted(good.wait(period=0.01).return_values.items()))
            good.close()
            bad = start("bad", fail_or_pause, (1,))
            result = bad.wait(period=0.01)
            print(sorted(result.failures), result.failures[1].exitcode)
            assert not any(p.is_alive() for p in bad._pc.processes)
            bad.close()
            import shutil
            shutil.rmtree(os.environ["TMPDIR"] + "/logs")
        """
    script = write(tmp_path / "main.py", source)
    done = run_python(script, timeout=55)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "[(0, 42), (1, 42)]"
    assert second == "[1] 1"
