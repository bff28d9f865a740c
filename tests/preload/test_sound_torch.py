"""torch in ranks that were preloaded: seeds, threads, devices, handlers, processes of its own."""

import os

import pytest
from sides import ranks, same, script, sides

import procession
from seams.preload import safe
from support import require, run_python, write

require("torch")
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


@pytest.mark.long
@pytest.mark.timeout(120)
def test_processes_of_a_rank(tmp_path):
    program = procession.Script(str(script(tmp_path, PROCESSES)))
    (rank,) = ranks(program, tmp_path, nproc=1)
    assert rank.early
    squares = [[[i * i, 1] for i in range(k, k + 4)] for k in (0, 4)]
    assert rank.seen.pop("spawned") == [0, 2500]
    assert rank.seen == dict.fromkeys(("fork", "spawn", "forkserver"), squares)


TRAINING = """
import atexit
import copyreg
import decimal
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import warnings
import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def state():
    loggers = vars(logging.root.manager)["loggerDict"]  # as a name it would be refused
    loggers = {n: v for n, v in loggers.items() if isinstance(v, logging.Logger)}
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": [int(n) for n in numpy.random.get_state()[1]],
        "random": list(random.getstate()[1]),
        "filters": sorted(str(f) for f in warnings.filters),
        "loggers": {n: [v.level, v.propagate, v.disabled, [str(type(h)) for h in v.handlers]]
                    for n, v in sorted(loggers.items())},
        "root": [logging.root.level, len(logging.root.handlers)],
        "signals": [str(getattr(signal.getsignal(n), "__name__", n))
                    for n in signal.valid_signals() - {signal.SIGWINCH, 50}],
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "defaults": [str(torch.get_default_dtype()), str(torch.get_default_device()),
                     torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(),
                     torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")],
        "pickled": sorted(str(c) for c in copyreg.dispatch_table),
        "decimal": str(decimal.getcontext()),
        "numbers": [numpy.geterr(), str(numpy.get_printoptions())],
        "directory": [os.getcwd(), tempfile.gettempdir()],
        "late": sorted(n for n in vars(torch) if n.startswith("_dynamo")),
    }


seen = {"early": "_dynamo" in vars(torch)}
dist.init_process_group("gloo")
torch.manual_seed(1)
numpy.random.seed(2)
random.seed(3)
seen["seeded"] = torch.rand(2).tolist()
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
seen["trained"] = [p.tolist() for p in model.parameters()]
seen["kinds"] = [str(p.dtype) for p in model.parameters()]
seen["compiled"] = torch.compile(torch.nn.ReLU(), backend="eager")(torch.ones(2)).tolist()
seen.update(state())
dist.destroy_process_group()
del model, optimizer, loss
"""


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_training_whose_later_imports_are_early(tmp_path):
    (tmp_path / "temporary").mkdir()
    found = sides(tmp_path, TRAINING, env={"TMPDIR": str(tmp_path / "temporary")})
    early = [[r.seen.pop("early") for r in side] for side in (found.cold, found.auto)]
    assert early == [[False] * 2, [True] * 2]
    seen = same(found).seen
    assert seen["late"] == ["_dynamo"]
    assert seen["compiled"] == [1, 1]


IMPORTS = """
import os
import random
import sys
import numpy
import torch
import torch.distributed
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

name, use = sys.argv[1:]
called = []


class Functions(TorchFunctionMode):
    def __torch_function__(self, f, types, args=(), kwargs=None):
        called.append(str(f))
        return f(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        called.append(str(f))
        return f(*args, **(kwargs or {}))


def drawn():
    return str([random.getstate(), numpy.random.get_state(), torch.get_rng_state().tolist()])


assert name not in sys.modules
if use == "optim":
    torch.optim.SGD(torch.nn.Linear(1, 1).parameters())
    assert name in sys.modules
elif use == "DistributedDataParallel":
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    assert name in sys.modules
    os._exit(0)  # what torch then leaves may abort
else:
    before = drawn()
    with Functions(), Operations():
        __import__(name)
    assert called == []  # so it does not matter which device, dtype or mode is set
    assert drawn() == before
"""


@pytest.mark.parametrize(
    ("name", "use"), [("torch._dynamo", ""), *((m, n) for n, m in safe.later("torch").items())]
)
@pytest.mark.long
@pytest.mark.timeout(120)
def test_what_the_list_says_of_later_imports(tmp_path, name, use):
    probe = write(tmp_path / "probe.py", IMPORTS)
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = run_python(probe, name, use, env=env, timeout=100)
    assert done.returncode == 0, done.stderr
