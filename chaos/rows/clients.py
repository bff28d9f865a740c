"""Clients look at a run from other terminals, and are killed; or their terminal is closed."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

from chaos import processes
from chaos.holding import send
from chaos.launchers import COMMAND, Launcher
from chaos.programs import talking
from chaos.row import SLOW, Row, Trial

SECONDS = 1.2
NPROC = 3
CLIENTS = (
    ("attach", "last"),
    ("attach", "last"),
    ("logs", "-f", "last"),
    ("logs", "-n", "1000", "last"),
    ("ps",),
    ("stacks", "last"),
    ("report", "last"),
)
ENDS = ("killed", "terminal closed", "stopped, then killed", "interrupted")
LINE = re.compile(r"\[(\d)\] line (\d+) of rank (\d)")


class _Client(threading.Thread):
    """A client in a terminal of its own, which ends badly."""

    def __init__(self, words: tuple[str, ...], after: float, lives: float, end: str) -> None:
        super().__init__()
        self.words, self.after, self.lives, self.end = words, after, lives, end

    def run(self) -> None:
        time.sleep(self.after)
        ours, theirs = pty.openpty()
        reads = threading.Event()
        process = subprocess.Popen(
            [COMMAND, *self.words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        deadline = time.monotonic() + self.lives
        while time.monotonic() < deadline and not reads.wait(0.01):
            if self.end != "stopped, then killed":  # that one's terminal is not read, either
                os.set_blocking(ours, False)
                try:
                    os.read(ours, 1 << 16)
                except BlockingIOError:
                    pass
                except OSError:
                    break  # it has ended
        if self.end == "terminal closed":
            os.close(ours)
            send(process.pid, signal.SIGHUP)  # as the kernel does for the session of a terminal
        elif self.end == "interrupted":
            send(process.pid, signal.SIGINT)
        elif self.end == "stopped, then killed":
            send(process.pid, signal.SIGSTOP)
            time.sleep(0.3)
        if self.end != "terminal closed":
            time.sleep(0.05)
            send(process.pid, signal.SIGKILL)
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self.end != "terminal closed":
            os.close(ours)


def strike(trial: Trial) -> None:
    """Run a job beside such clients, and compare it with one that nobody looks at."""
    chance, work = trial.chance, trial.place / "work"
    loser = chance.choice((-1, -1, 1))
    mode = chance.choice(("console", "tee"))
    argv = [COMMAND, "run", "-n", str(NPROC)]
    argv += ["--log-dir", "logs", "-t", "3"] if mode == "tee" else []
    argv += [talking.__file__, str(SECONDS), str(loser)]
    clients = [
        _Client(
            chance.choice(CLIENTS),
            chance.uniform(0, SECONDS),
            chance.uniform(0.02, 1.0),
            chance.choice(ENDS),
        )
        for _ in range(chance.randrange(2, 5))
    ]
    told = ", ".join(
        f"{c.words[0]} at {c.after:.2f} s {c.end} after {c.lives:.2f} s" for c in clients
    )
    trial.do(f"{mode}, loser {loser}: {told}")
    launcher = Launcher(argv, work)
    deadline = time.monotonic() + 20 * SLOW
    while len([*work.glob("there.*")]) < NPROC and time.monotonic() < deadline:
        time.sleep(0.005)
    began = time.monotonic()
    for each in clients:
        each.start()
    code = launcher.end((SECONDS + 20) * SLOW)
    trial.took("until the end, less the work", time.monotonic() - began - SECONDS, 2.0)
    for each in clients:
        each.join()
    trial.must(code == (0 if loser < 0 else 7), f"exit code {code}: {launcher.text()[-800:]}")
    _lines(trial, launcher.text(), work, mode, whole=loser < 0)
    left, _ = launcher.wait_gone(SLOW)
    trial.must(not left, f"alive: {processes.named(left)}")
    for each in clients:
        trial.count(each.words[0])


def _lines(trial: Trial, text: str, work: Path, mode: str, *, whole: bool) -> None:
    """Look for lines that are lost or torn, on the console and in files."""
    shown = [LINE.fullmatch(line) for line in text.splitlines() if line[3:8] == " line"]
    trial.must(None not in shown, "a line is torn on the console")
    for rank in range(NPROC):
        numbers = [int(m[2]) for m in shown if m and int(m[1]) == rank]
        right = numbers == [*range(len(numbers))] and bool(numbers)
        trial.must(right, f"rank {rank}: lines are lost or mixed up on the console")
        end = f"the last line of rank {rank} is {len(numbers)}"
        trial.must(end in text or not whole, f"rank {rank}: the last line is not shown")
        if mode == "tee" and whole:
            (path,) = work.glob(f"logs/*/attempt_0/{rank}/stdout.log")
            lines = path.read_text().splitlines()
            same = len(lines) == len(numbers) + 1
            trial.must(same, f"rank {rank}: {len(lines)} lines in its file")


ROW = Row(
    fault="`procession attach`, `logs -f`, `ps`, `stacks` and `report` look at a job at every "
    "stage, and are killed, stopped, interrupted, or their terminal is closed",
    holds="the job is unaffected: its time, its exit code, every line on its console and in files",
    full=500,
    trials=83,
    short=2,
    strike=strike,
    limit=60 * SLOW,
)
