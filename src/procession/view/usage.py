"""What ranks use of the machine: CPU, memory and GPU memory, each with its children.

One pass over /proc reads one file of each process. `psutil` needs three for the same, and looks
through all of /proc again for the children of each rank.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from procession.system.processes import Seen, processes
from procession.values.base import Record

EVERY = 2.0  # seconds between two samples
SHARE = 0.01  # of one core, that sampling may cost


class Usage(Record):
    """What a rank uses, with its children. cpu: percent of one core. memory, gpu: bytes."""

    cpu: float | None = None
    memory: int | None = None
    gpu: int | None = None


class Sampler:
    """Samples now and then what processes and all below them use."""

    def __init__(self) -> None:
        self._before: dict[int, int] = {}  # by process: ticks of CPU, with all below it
        self._at = self._next = 0.0
        self._found: dict[int, Usage] = {}

    def usage(self, pids: Mapping[int, int]) -> Mapping[int, Usage]:
        """Give what ranks use, by rank, as it was sampled last. pids: their processes, by rank."""
        now = time.monotonic()
        if now >= self._next:
            with suppress(OSError):  # no descriptor or memory to look with: perhaps the next time
                self._found = self._sample(pids, processes(), gpu_memory(), now)
            self._next = now + max(EVERY, (time.monotonic() - now) / SHARE)
        return self._found

    def _sample(
        self, pids: Mapping[int, int], seen: Mapping[int, Seen], gpu: Mapping[int, int], now: float
    ) -> dict[int, Usage]:
        found = {pid: Usage(memory=0) for pid in pids.values() if pid in seen}
        ticks = dict.fromkeys(found, 0)
        for process in seen.values():
            above: Seen | None = process
            while above is not None and above.pid not in found:
                above = seen.get(above.parent)
            if above is not None:
                top = found[above.pid]
                ticks[above.pid] += process.ticks
                top.memory = (top.memory or 0) + process.pages * os.sysconf("SC_PAGE_SIZE")
                if process.pid in gpu:
                    top.gpu = (top.gpu or 0) + gpu[process.pid]
        for pid in ticks.keys() & self._before.keys():
            seconds = (ticks[pid] - self._before[pid]) / os.sysconf("SC_CLK_TCK")
            found[pid].cpu = max(0.0, 100 * seconds / (now - self._at))
        self._before, self._at = ticks, now
        return {rank: found[pid] for rank, pid in pids.items() if pid in found}


def gpu_memory() -> dict[int, int]:
    """Give the bytes that each process holds on all NVIDIA GPUs, where `nvidia-ml-py` is there."""
    held: dict[int, int] = {}
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()  # it counts its users: only the first takes time
        for device in map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount())):
            for process in nvml.nvmlDeviceGetComputeRunningProcesses(device):
                held[process.pid] = held.get(process.pid, 0) + (process.usedGpuMemory or 0)
    except Exception:
        pass  # it is not installed, or there is no driver
    return held
