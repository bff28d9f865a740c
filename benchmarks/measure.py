"""Measuring: programs run in turn, and what the kernel counts of processes.

A benchmark launches nothing in its own process. Each sample is a program of its own that starts
from nothing, so that no way of launching finds what another one left.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable
PROCESSION = [PYTHON, "-m", "procession", "run"]
TORCHRUN = [PYTHON, "-m", "torch.distributed.run"]
PATIENCE = 240.0  # seconds that one program may take

T = TypeVar("T")


def program(name: str) -> str:
    """Give the path of a program that is launched, or that launches."""
    return str(HERE / "programs" / f"{name}.py")


def limit(name: str) -> str:
    """Give the path of a program that does the same by hand."""
    return str(HERE / "limits" / f"{name}.py")


def alternate(ways: Mapping[str, Callable[[], T]], repeat: int) -> dict[str, list[T]]:
    """Take `repeat` samples of each way, in turn, every round beginning with the next one."""
    names = list(ways)
    samples: dict[str, list[T]] = {name: [] for name in names}
    for k in range(repeat):
        first = k % len(names)
        for name in names[first:] + names[:first]:
            samples[name].append(ways[name]())
    return samples


# -- programs


def run(command: list[str], env: Mapping[str, str] | None = None) -> tuple[float, str]:
    """Run a program to its end. Gives the seconds from before it was started until it was gone,
    and what it has said. Raises RuntimeError, with its last words, if it fails.
    """
    begin = time.perf_counter()
    done = subprocess.run(
        command,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        words = f"{done.stdout[-500:]}\n{done.stderr[-2000:]}"
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{words}")
    return seconds, done.stdout


def ask(*command: str) -> Any:
    """Run a Python program that prints what it measured, as JSON, in its last line."""
    return json.loads(run([PYTHON, *command])[1].splitlines()[-1])


def until(condition: Callable[[], T], what: str, patience: float = PATIENCE) -> T:
    """Wait until the condition gives something true, and give that. Raises TimeoutError."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {patience:g} s")
        time.sleep(0.01)
    return found


@contextmanager
def launched(command: list[str], ranks: int, directory: Path):
    """Have a launcher run whose ranks each leave a file, named by its pid, in `directory`.

    Gives the launcher's pid and those of the ranks, when all of them are there. Afterwards all are
    ended: a peer's ranks may outlive their launcher, and would take the memory of the next sample.
    """
    with open(directory.parent / f"{directory.name}.log", "w+b") as log:
        launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def pids() -> list[int]:
            if launcher.poll() is not None:
                log.seek(0)
                raise RuntimeError(f"{' '.join(command)} ended:\n{log.read().decode()[-2000:]}")
            found = [int(p.name) for p in directory.iterdir()]
            return found if len(found) == ranks else []

        try:
            yield launcher.pid, until(pids, f"{ranks} ranks")
        finally:
            all_of_it = below(launcher.pid)
            launcher.terminate()
            launcher.wait(20)
            for pid in all_of_it - {launcher.pid}:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


# -- what the kernel counts


def below(pid: int) -> set[int]:
    """Give a process and all that descend from it."""
    return {pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))}


def apart_from(pid: int, ranks: list[int]) -> set[int]:
    """Give a launcher and what it has below, without its ranks and what they have below."""
    return below(pid).difference(*(below(r) for r in ranks))


def tasks(pid: int) -> list[Path]:
    """Give the directories of a process's threads."""
    return list(Path(f"/proc/{pid}/task").iterdir())


def wakeups(pid: int) -> int:
    """Count how often the threads that a process has now went to sleep, and so were woken."""
    return sum(psutil.Process(int(t.name)).num_ctx_switches().voluntary for t in tasks(pid))


def cpu_seconds(pid: int) -> float:
    """Give the CPU time of the threads that a process has now; exact to the nanosecond."""
    return sum(int((t / "schedstat").read_text().split()[0]) for t in tasks(pid)) / 1e9


def pss(pid: int) -> int:
    """Give a process's share of memory in bytes: its own, and its part of what it shares.

    One that has gone meanwhile has none.
    """
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).memory_full_info().pss
    return 0


def rss(pid: int) -> int:
    """Give a process's resident memory in bytes, shared pages counted in full."""
    return psutil.Process(pid).memory_info().rss
