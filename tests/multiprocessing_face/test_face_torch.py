"""With torch: examples of its documentation, tensors in shared memory, its own code on ours."""

import pytest
from facesupport import METHODS, tidy  # noqa: F401

from seams.system import free_port
from support import run_python, write

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]  # new interpreters import torch


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def said(tmp_path, source):
    done = run_python(write(tmp_path / "main.py", source), timeout=250)
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(done.stdout.splitlines())


@pytest.mark.long
def test_data_parallel_training(tmp_path):
    """Of the notes on DistributedDataParallel: address and port in the launcher's environment."""
    source = f"""
        import os
        import torch
        import torch.distributed as dist
        import procession.multiprocessing as mp
        import torch.nn as nn
        import torch.optim as optim
        from torch.nn.parallel import DistributedDataParallel as DDP

        def example(rank, world_size):
            dist.init_process_group("gloo", rank=rank, world_size=world_size)
            model = DDP(nn.Linear(10, 10))
            loss_fn = nn.MSELoss()
            optimizer = optim.SGD(model.parameters(), lr=0.001)
            outputs = model(torch.randn(20, 10))
            loss_fn(outputs, torch.randn(20, 10)).backward()
            optimizer.step()
            weights = torch.cat([p.flatten() for p in model.parameters()])
            others = [torch.zeros_like(weights) for _ in range(world_size)]
            dist.all_gather(others, weights.detach())
            print(rank, all(torch.equal(o, others[0]) for o in others))
            dist.destroy_process_group()

        def main():
            world_size = 2
            mp.spawn(example, args=(world_size,), nprocs=world_size, join=True)

        if __name__ == "__main__":
            os.environ["MASTER_ADDR"] = "localhost"
            os.environ["MASTER_PORT"] = "{free_port()}"
            main()
        """
    assert said(tmp_path, source) == ["0 True", "1 True"]


@pytest.mark.long
def test_joining_later(tmp_path):
    """Of `spawn` and `SpawnContext.join`: what `join=False` gives, joined until it says True."""
    source = """
        import torch
        import procession.multiprocessing as mp

        def fill(i, results, value):
            results[i] = value

        if __name__ == "__main__":
            results = torch.zeros(3)
            results.share_memory_()
            context = mp.spawn(fill, args=(results, 5), nprocs=3, join=False, daemon=True)
            while not context.join(timeout=5):
                pass
            print(results.tolist())
        """
    assert said(tmp_path, source) == ["[5.0, 5.0, 5.0]"]


def test_a_failing_process(tmp_path):
    """Of `spawn`: the exception of the child, with its traceback, is raised in the parent."""
    source = """
        import procession.multiprocessing as mp

        def fails(i):
            raise RuntimeError(f"child {i} cannot go on")

        def leaves(i):
            raise SystemExit(4)

        if __name__ == "__main__":
            try:
                mp.spawn(fails)
            except mp.ProcessRaisedException as e:
                assert "in fails" in str(e)
                print(str(e).splitlines()[-1])
            try:
                mp.spawn(leaves)
            except mp.ProcessExitedException as e:
                print(e)
        """
    assert said(tmp_path, source) == [
        "RuntimeError: child 0 cannot go on",
        "process 0 terminated with exit code 4",
    ]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "strategy", ["file_descriptor", pytest.param("file_system", marks=pytest.mark.long)]
)
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
