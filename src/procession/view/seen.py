"""A group as it is seen at one moment: its `look()`, with rates, and what its ranks use."""

from __future__ import annotations

import importlib
import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from procession.system import processes
from procession.values.base import Record, Value

GONE = ("EXITED", "LOST")
WINDOW = 30.0  # seconds over which a rate is taken
SPACING = 0.5  # seconds between two samples that are kept
EVERY = 2.0  # seconds between two samples of what ranks use
SHARE = 0.01  # of one core, that sampling may cost

Look = Mapping[str, Any]


class Usage(Record):
    """What a rank uses, with its children. cpu: percent of one core. memory, gpu: bytes."""

    cpu: float | None = None
    memory: int | None = None
    gpu: int | None = None


class RankView(Value):
    """A rank. rank: its number in the job. quiet: seconds since its last beat, None: none yet."""

    rank: int
    state: str
    exit: str = ""
    ended: str = ""
    failed: bool = False
    step: float | None = None
    total: float | None = None
    rate: float | None = None
    quiet: float | None = None
    usage: Usage = Usage()
    fields: Mapping[str, float | str] | None = None
    last_line: str = ""

    @property
    def gone(self) -> bool:
        """Whether it has no process any more."""
        return self.state in GONE

    @property
    def left(self) -> float | None:
        """Seconds until it has done all its steps, as it goes now."""
        if self.step is None or not self.total or not self.rate:
            return None
        return max(0.0, (self.total - self.step) / self.rate)


class Whole(Value):
    """The group. seconds: since it began. to_kill: seconds to SIGKILL, None: not ending."""

    name: str
    state: str
    attempt: int
    restarts: int
    seconds: float
    ranks: tuple[RankView, ...]
    cause: str = ""
    to_kill: float | None = None


class Sight:
    """Sees one group. look: gives what is known of it; see `Group.look` for the keys."""

    def __init__(self, look: Callable[[], Look]) -> None:
        self.look = look
        self._pace = Pace()
        self._sampler = Sampler()

    def see(self, look: Look | None = None) -> Whole:
        """See the group as it is now. look: or as it was then, without what its ranks use."""
        usage: Mapping[int, Usage] = {}
        if look is None:
            look = self.look()
            here = os.uname().nodename
            ranks = [r for r in look["ranks"] if r.get("host", here) == here]
            pids = {r["rank"]: r["pid"] for r in ranks if r["pid"] and r["exit"] is None}
            usage = self._sampler.usage(pids) if pids else {}
        now, kill_at = time.time(), look.get("kill_at")
        return Whole(
            name=look["name"],
            state=look["state"],
            attempt=look["attempt"],
            restarts=look["restarts"],
            seconds=max(0.0, now - look["began"]),
            ranks=tuple(self._rank(look["first"], r, now, usage) for r in look["ranks"]),
            cause=look.get("cause") or "",
            to_kill=None if kill_at is None else max(0.0, kill_at - now),
        )

    def _rank(self, first: int, rank: Look, now: float, usage: Mapping[int, Usage]) -> RankView:
        local, at, state = rank["rank"], rank["beat_at"], rank["state"]
        step, total = (
            v if v is not None and math.isfinite(v) else None for v in (rank["step"], rank["total"])
        )
        rate = self._pace.note_beat(local, at, step, now)
        return RankView(
            rank=first + local,
            state=state,
            exit=rank["exit"] or "",
            ended=rank.get("ended") or "",
            failed=bool(rank.get("failed")),
            step=step,
            total=total,
            rate=None if state in GONE else rate,
            quiet=None if at is None else max(0.0, now - at),
            usage=usage.get(local, Usage()),
            fields=rank["fields"],
            last_line=rank.get("last_line") or "",
        )


class Pace:
    """The last steps of each rank. Times are in seconds, of any clock."""

    def __init__(self) -> None:
        self._steps: dict[int, deque[tuple[float, float]]] = {}

    def note_beat(
        self, rank: int, at: float | None, step: float | None, now: float
    ) -> float | None:
        """Note where a rank was at its last beat; gives its steps per second.

        None where too little was seen, or nothing for too long. A rank that goes back begins again.
        """
        steps = self._steps.setdefault(rank, deque())
        if at is None or step is None or (steps and step < steps[-1][1]):
            steps.clear()
        if at is None or step is None:
            return None
        if not steps or at - steps[-1][0] >= SPACING:
            steps.append((at, step))
        while len(steps) > 2 and steps[1][0] < at - WINDOW:
            steps.popleft()
        if len(steps) < 2 or now - at > max(WINDOW, 3 * (at - steps[-2][0])):
            return None
        return (step - steps[0][1]) / (at - steps[0][0])


class Sampler:
    """Samples now and then what processes and all below them use.

    One pass over /proc reads one file of each process. `psutil` needs three for the same, and looks
    through all of /proc again for the children of each rank.
    """

    def __init__(self) -> None:
        self._before: dict[int, int] = {}  # by process: ticks of CPU, with all below it
        self._at = self._next = 0.0
        self._found: dict[int, Usage] = {}

    def usage(self, pids: Mapping[int, int]) -> Mapping[int, Usage]:
        """Give what ranks use, by rank, as it was sampled last. pids: their processes, by rank."""
        now = time.monotonic()
        if now >= self._next:
            with suppress(OSError):  # no descriptor or memory to look with: perhaps the next time
                self._found = self._sample(pids, processes.processes(), gpu_memory(), now)
            self._next = now + max(EVERY, (time.monotonic() - now) / SHARE)
        return self._found

    def _sample(
        self,
        pids: Mapping[int, int],
        seen: Mapping[int, processes.ProcessInfo],
        gpu: Mapping[int, int],
        now: float,
    ) -> dict[int, Usage]:
        found = {pid: Usage(memory=0) for pid in pids.values() if pid in seen}
        ticks = dict.fromkeys(found, 0)
        for process in seen.values():
            above: processes.ProcessInfo | None = process
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
