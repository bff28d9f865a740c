"""What ranks use, from a /proc that is made up, from a real one, and from GPUs that are made up."""

import os
import subprocess
import sys
import types

import pytest

from seams.view import Gpus, Sampler
from support import until

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def proc(tmp_path):
    def add(pid, parent, ticks=0, pages=0, name="a) b"):
        words = ["S", str(parent)] + ["0"] * 9 + [str(ticks), "0", "0", "0"] + ["0"] * 6
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        (tmp_path / str(pid) / "stat").write_text(
            f"{pid} ({name}) {' '.join([*words, str(pages), '0'])}\n"
        )

    add.root = str(tmp_path)
    return add


def sample(sampler, pids, at):
    return sampler._sample(pids, at)


def test_a_rank_has_what_its_children_have(proc):
    for pid, parent, pages in ((10, 1, 100), (11, 10, 20), (12, 11, 3), (20, 1, 7), (2, 0, 0)):
        proc(pid, parent, pages=pages)
    found = sample(Sampler(proc.root), {0: 10, 1: 20, 2: 99}, 0.0)
    assert {rank: usage.memory for rank, usage in found.items()} == {0: 123 * PAGE, 1: 7 * PAGE}
    assert found[0].cpu is None, "it needs two samples"


def test_cpu_is_that_between_two_samples(proc):
    sampler = Sampler(proc.root)
    proc(10, 1, ticks=0)
    proc(11, 10, ticks=0)
    sample(sampler, {0: 10}, 100.0)
    proc(10, 1, ticks=2 * TICK)
    proc(11, 10, ticks=1 * TICK)
    assert sample(sampler, {0: 10}, 102.0)[0].cpu == pytest.approx(150.0)


def test_who_goes_in_between_is_left_out(proc, tmp_path):
    proc(10, 1, pages=5)
    (tmp_path / "11").mkdir()  # its stat cannot be read any more
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "stat").write_text("12 (torn")
    assert sample(Sampler(proc.root), {0: 10}, 0.0)[0].memory == 5 * PAGE


def test_threads_of_the_kernel_are_asked_once(proc, tmp_path):
    sampler = Sampler(proc.root)
    proc(30, 2)
    sample(sampler, {}, 0.0)
    (tmp_path / "30" / "stat").unlink()
    (tmp_path / "30" / "stat").mkdir()  # whoever asks again finds something else
    assert 30 in sampler._kernels


def test_real_processes():
    code = "x = bytearray(50_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint(flush=True)\ninput()"  # noqa: E501
    child = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1)
    try:
        child.stdout.readline()
        usage = Sampler().usage({3: child.pid})[3]
        assert 50e6 < usage.memory < 200e6
    finally:
        child.communicate(b"\n")


def test_samples_are_rare():
    sampler = Sampler()
    asked = []
    sampler._sample = lambda pids, now: asked.append(now) or {}
    for _ in range(1000):
        sampler.usage({0: 1})
    assert len(asked) == 1
    sampler._next = 0.0
    until(lambda: sampler.usage({0: 1}) or len(asked) == 2)


def nvml(processes, fails=False):
    def ask(device):
        if fails:
            raise RuntimeError("the driver is gone")
        return [types.SimpleNamespace(pid=p, usedGpuMemory=m) for p, m in processes[device]]

    return types.SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(processes),
        nvmlDeviceGetHandleByIndex=lambda i: i,
        nvmlDeviceGetComputeRunningProcesses=ask,
    )


def test_gpu_memory_is_that_of_all_gpus(proc, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml([[(10, 5), (99, 1)], [(11, 7), (12, None)]]))
    for pid, parent in ((10, 1), (11, 10), (12, 1), (13, 1)):
        proc(pid, parent)
    found = sample(Sampler(proc.root), {0: 10, 1: 12, 2: 13}, 0.0)
    assert [found[rank].gpu for rank in range(3)] == [12, 0, None]


@pytest.mark.parametrize("module", [None, nvml([[]], fails=True), types.SimpleNamespace()])
def test_no_gpus(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", module)
    gpus = Gpus()
    assert gpus.by_process() == gpus.by_process() == {}
    gpus.close()
