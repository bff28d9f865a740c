"""What ranks use of the machine: CPU, memory and GPU memory, each with its children.

One pass over /proc reads one file of each process. `psutil` needs three for the same, and looks
through all of /proc again for the children of each rank.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Mapping
from typing import Any

from procession.system.files import process_fields
from procession.view.seen import Usage

EVERY = 2.0  # seconds between two samples
SHARE = 0.01  # of one core, that sampling may cost
KERNEL = 2  # the parent of the kernel's threads


class Sampler:
    """Samples now and then what processes and all below them use."""

    def __init__(self, root: str = "/proc") -> None:
        self._root = root
        self._tick = os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._before: dict[int, tuple[float, float]] = {}  # by process: when, CPU seconds
        self._kernels: set[int] = {KERNEL}
        self._next = 0.0
        self._found: dict[int, Usage] = {}
        self._gpus: Gpus | None = None

    def usage(self, pids: Mapping[int, int]) -> Mapping[int, Usage]:
        """Give what ranks use, by rank, as it was sampled last. pids: their processes, by rank."""
        now = time.monotonic()
        if now >= self._next:
            self._found = self._sample(pids, now)
            cost = time.monotonic() - now
            self._next = now + max(EVERY, cost / SHARE)
        return self._found

    def _sample(self, pids: Mapping[int, int], now: float) -> dict[int, Usage]:
        if self._gpus is None:
            self._gpus = Gpus()
        gpu = self._gpus.by_process()
        table = self._processes()
        children: dict[int, list[int]] = {}
        for pid, (parent, _, _) in table.items():
            children.setdefault(parent, []).append(pid)
        found: dict[int, Usage] = {}
        spent: dict[int, tuple[float, float]] = {}
        for rank, pid in pids.items():
            if pid not in table:
                continue
            family = [pid]
            for member in family:  # grows as it is walked
                family += children.get(member, ())
            seconds = sum(table[p][1] for p in family)
            spent[pid] = now, seconds
            cpu = None
            if pid in self._before:
                at, before = self._before[pid]
                cpu = max(0.0, 100 * (seconds - before) / (now - at))
            held = [gpu[p] for p in family if p in gpu]
            memory = sum(table[p][2] for p in family)
            found[rank] = Usage(cpu, memory, sum(held) if held else None)
        self._before = spent
        return found

    def _processes(self) -> dict[int, tuple[int, float, int]]:
        """Give each process's parent, CPU seconds (with children that it has reaped) and memory."""
        found: dict[int, tuple[int, float, int]] = {}
        for name in os.listdir(self._root):
            if not name.isdecimal() or int(name) in self._kernels:
                continue
            try:
                words = process_fields(name, self._root)
                parent = int(words[1])
                if parent == KERNEL:
                    self._kernels.add(int(name))
                    continue
                ticks = sum(map(int, words[11:15]))
                found[int(name)] = parent, ticks / self._tick, int(words[21]) * self._page
            except (OSError, IndexError, ValueError):
                continue  # gone
        return found

    def close(self) -> None:
        """Close what GPUs are asked with."""
        if self._gpus is not None:
            self._gpus.close()


class Gpus:
    """GPU memory by process, where NVIDIA's library and `nvidia-ml-py` are there."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._devices: list[Any] = []
        try:
            nvml: Any = importlib.import_module("pynvml")
            nvml.nvmlInit()
        except Exception:
            return  # it is not installed, or there is no driver
        self._nvml = nvml
        try:
            count = nvml.nvmlDeviceGetCount()
            self._devices = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
        except Exception:
            self.close()

    def by_process(self) -> dict[int, int]:
        """Give the bytes that each process holds, on all GPUs together."""
        held: dict[int, int] = {}
        try:
            for device in self._devices:
                for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(device):
                    held[process.pid] = held.get(process.pid, 0) + (process.usedGpuMemory or 0)
        except Exception:
            self.close()
        return held

    def close(self) -> None:
        """Close the library."""
        self._devices = []
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            try:
                nvml.nvmlShutdown()
            except Exception:
                pass  # it is only a counter of users
