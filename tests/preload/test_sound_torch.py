"""torch in ranks that were preloaded: seeds, threads, devices, handlers, processes of its own."""

import pytest
from sides import ranks, same, script, sides

import procession

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SOURCE = """
import logging
import os
import sys
import threading
import multiprocessing
import warnings
import numpy
import torch
import torch.distributed

threads = len(os.listdir("/proc/self/task"))
drawn = {
    "initial": torch.initial_seed(),
    "rand": torch.rand(1).item(),
    "normal": torch.randn(1).item(),
    "permutation": torch.randperm(1000).tolist(),
    "random": int(torch.empty((), dtype=torch.int64).random_()),
    "numpy": numpy.random.rand(),
}
drawn["seed"] = torch.seed()
own = torch.Generator().initial_seed()
torch.manual_seed(3)
a = torch.ones(600, 600)
loggers = logging.root.manager.loggerDict
loggers = {n: v for n, v in loggers.items() if isinstance(v, logging.Logger)}
seen = {
    "drawn": drawn,
    "seeded": [torch.rand(2).tolist(), torch.initial_seed(), own],
    "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
    "parallel": torch.__config__.parallel_info(),
    "product": [(a @ a)[0, 0].item(), (a.numpy() @ a.numpy())[0, 0].item()],
    "cuda": [torch.cuda.is_available(), torch.cuda.is_initialized(),
             torch.cuda._is_in_bad_fork(), torch.cuda.device_count()],
    "backends": [torch.backends.mkldnn.is_available(), torch.backends.mkl.is_available(),
                 torch.backends.openmp.is_available(), torch.backends.cudnn.enabled,
                 torch.backends.cpu.get_cpu_capability()],
    "defaults": [str(torch.get_default_dtype()), torch.is_grad_enabled(),
                 torch.are_deterministic_algorithms_enabled(), str(torch.get_default_device())],
    "filters": [str(f) for f in warnings.filters],
    "loggers": {n: [v.level, v.propagate, v.disabled, [type(h).__name__ for h in v.handlers],
                    [h.stream is sys.stderr for h in v.handlers if hasattr(h, "stream")]]
                for n, v in loggers.items()},
    "method": multiprocessing.get_start_method(allow_none=True),
    "KMP": {n: v for n, v in os.environ.items() if n.startswith(("KMP", "OMP", "TORCH_"))},
}
loss = torch.nn.Linear(600, 3)(a).sum()
loss.backward()  # in threads of autograd's own
"""


def test_torch(tmp_path):
    """Two intra-op threads: a pool of them is made after the fork.

    torch seeds the generator of the CPU anew in every process, and so it is in every rank.
    """
    found = sides(tmp_path, SOURCE, env={"OMP_NUM_THREADS": "2"})
    drawn = [r.seen.pop("drawn") for r in found.all]
    for name in drawn[0]:
        assert len({str(d[name]) for d in drawn}) == len(drawn), name
    seen = same(found).seen
    assert seen["threads"][0] == 2
    assert seen["product"] == [600, 600]
    assert not any(seen["cuda"][1:3])
    assert seen["loggers"]["torch"][4] == [True]


PROCESSES = """
import multiprocessing
import torch
import torch.multiprocessing
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.tensor([float(i * i), torch.get_num_threads()])


def work(i, queue):
    queue.put((i, float(torch.ones(50, 50).sum())))


seen = {}

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        workers = 2 if method == "fork" else 1  # which do not import torch
        loader = DataLoader(Squares(), 4, num_workers=workers, multiprocessing_context=method)
        seen[method] = [batch.tolist() for batch in loader]
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(work, (queue,))
    seen["spawned"] = queue.get()
"""


@pytest.mark.timeout(120)
def test_processes_of_a_rank(tmp_path):
    program = procession.Script(str(script(tmp_path, PROCESSES)))
    (rank,) = ranks(program, tmp_path, nproc=1)
    assert rank.early
    squares = [[[i * i, 1] for i in range(k, k + 4)] for k in (0, 4)]
    assert rank.seen.pop("spawned") == [0, 2500]
    assert rank.seen == dict.fromkeys(("fork", "spawn", "forkserver"), squares)
