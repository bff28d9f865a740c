"""What ranks use, from processes and GPUs that are made up, and from a real process."""

import os
import subprocess
import sys
import types

import pytest

from seams.system import processes
from seams.view import Sampler, gpu_memory

PAGE = os.sysconf("SC_PAGE_SIZE")


def sample(sampler, pids, at, table, gpu=()):
    """table: parent, ticks and pages of each process."""
    seen = {pid: processes.ProcessInfo(pid, up, 0, 0, *more) for pid, (up, *more) in table.items()}
    return sampler._sample(pids, seen, dict(gpu), at)


def test_a_rank_has_what_its_children_have():
    table = {10: (1, 0, 100), 11: (10, 0, 20), 12: (11, 0, 3), 20: (1, 0, 7), 2: (0, 0, 0)}
    gpu = {12: 5, 11: 7, 2: 9}
    found = sample(Sampler(), {0: 10, 1: 20, 2: 99}, 1.0, table, gpu)
    assert {rank: usage.memory for rank, usage in found.items()} == {0: 123 * PAGE, 1: 7 * PAGE}
    assert found[0].cpu is None, "it needs two samples"
    assert (found[0].gpu, found[1].gpu) == (12, None)


def test_a_real_process():
    code = "x = b'x' * 50_000_000\nprint(flush=True)\ninput()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1)
    try:
        child.stdout.readline()
        sampler = Sampler()
        usage = sampler.usage({3: child.pid})[3]
        assert 50e6 < usage.memory < 200e6
        assert sampler.usage({3: child.pid})[3] is usage, "samples are rare"
    finally:
        child.communicate(b"\n")


def nvml(processes, fails=False):
    def ask(device):
        if fails:
            raise RuntimeError("the driver is gone")
        return [types.SimpleNamespace(pid=p, usedGpuMemory=m) for p, m in processes[device]]

    return types.SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: len(processes),
        nvmlDeviceGetHandleByIndex=lambda i: i,
        nvmlDeviceGetComputeRunningProcesses=ask,
    )


def test_gpu_memory_is_that_of_all_gpus(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml([[(10, 5), (99, 1)], [(10, 7), (12, None)]]))
    assert gpu_memory() == {10: 12, 99: 1, 12: 0}


@pytest.mark.parametrize("module", [None, nvml([[]], fails=True), types.SimpleNamespace()])
def test_no_gpus(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", module)
    assert gpu_memory() == {}
