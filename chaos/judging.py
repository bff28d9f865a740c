"""What every trial is judged by: nothing that it found is changed, and nothing new is there."""

from __future__ import annotations

import os
import resource
import signal
import threading

from chaos import processes
from chaos.row import SLOW, Trial

ON_ITS_WAY = 1.0  # seconds that what ends by itself may take
LIMITS = ("NOFILE", "NPROC", "CORE", "AS", "FSIZE", "STACK")


class Surroundings:
    """What this process has and is, before a trial."""

    def __init__(self, mark: str) -> None:
        """Note it. mark: the value of the variable that all processes of trials have."""
        self.mark = mark
        self.descriptors = processes.descriptors()
        self.threads = {*threading.enumerate()}
        self.fixed = _fixed()
        self.shared = _shared()

    def judge(self, trial: Trial, idle: int = 0) -> None:
        """Note as problems what is left or changed; idle: agents that may be kept."""
        processes.until(lambda: not self._left(idle), ON_ITS_WAY * SLOW)
        trial.problems += self._left(idle)
        for name, value in _fixed().items():
            before = self.fixed[name]
            trial.must(value == before, f"changed: {name} is {value}, was {before}")
        for each in sorted(_shared() - self.shared):
            trial.problems.append(f"left: {each}")
        for folder in ("tmp", "runtime"):
            for name in _names(trial.place / folder):
                within = _names(trial.place / folder / name)
                if folder == "tmp" or within:  # the runtime directory keeps its own, empty
                    trial.problems.append(f"left: {folder}/{name} {within or ''}".rstrip())

    def _left(self, idle: int) -> list[str]:
        own = processes.children(os.getpid())
        kept = [pid for pid in own if "agent/entry.py" in processes.command_line(pid)]
        kept = [pid for pid in kept if not processes.children(pid)][:idle]
        here = [pid for pid in processes.marked(self.mark) if pid not in kept]
        left = [f"left: process {processes.named([pid])}" for pid in here]
        left += [f"left: thread {t.name}" for t in threading.enumerate() if t not in self.threads]
        known = {*self.descriptors.items()}
        new = [each for each in processes.descriptors().items() if each not in known]
        new = [each for each in new if not each[1].startswith(("/dev/null", "/dev/urandom"))]
        # An agent that is kept has a socket, and a descriptor of its process.
        of_kept = [each for each in new if each[1].startswith(("socket:", "anon_inode:[pidfd]"))]
        new = [each for each in new if each not in of_kept[: 2 * len(kept)]]
        return left + [f"left: descriptor {number}: {target}" for number, target in new]


def _names(path: str | os.PathLike[str]) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _shared() -> set[str]:
    """Give shared memory: in a worker's own namespaces, nobody else's."""
    if "CHAOS_ALONE" not in os.environ:
        return set()
    found = {f"/dev/shm/{name}" for name in _names("/dev/shm")}
    with open("/proc/sysvipc/shm", encoding="ascii") as f:
        return found | {f"System V memory {line.split()[1]}" for line in f.readlines()[1:]}


def _fixed() -> dict[str, str]:
    """Give what nothing may change, as texts."""
    mask = os.umask(0)
    os.umask(mask)
    told = {
        f"the handler of {signal.Signals(n).name}": repr(signal.getsignal(n))
        for n in {*signal.Signals}
    }
    told["the signal mask"] = repr(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
    told["the directory"] = os.getcwd()
    told["the umask"] = oct(mask)
    told["the environment"] = repr(sorted(os.environ.items()))
    told["the timer"] = repr(signal.getitimer(signal.ITIMER_REAL))
    for name in LIMITS:
        told[f"the limit {name}"] = repr(resource.getrlimit(getattr(resource, f"RLIMIT_{name}")))
    return told
