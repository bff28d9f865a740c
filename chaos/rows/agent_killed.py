"""The agent is killed, stopped, or held by a debugger, at every stage of a group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import procession
from chaos import processes
from chaos.launchers import COMMAND, OWN, Launcher
from chaos.processes import held, send, until
from chaos.programs import family
from chaos.row import SLOW, Row, Trial
from chaos.runner import ROOT

GRACE = 0.2
NPROC = 3
MARKED = ("forkserver", "spawn", "command")  # ranks that `procession clean` knows
METHODS = (*MARKED, "fork")
KILLED = ("killed", "stopped, then killed")
ANSWER = 1.1  # seconds that the launcher waits for an answer
STANDS = 5.0  # seconds after which a start fails whose agent stays stopped


def strike(trial: Trial) -> None:
    """Strike the agent of this process, or that of a launcher that is killed as well."""
    if trial.chance.random() < 0.3:
        _launcher_too(trial)
    else:
        _Alone(trial).go()


class _Alone:
    """A trial in which this process is the launcher."""

    def __init__(self, trial: Trial) -> None:
        chance = trial.chance
        self.trial = trial
        self.method = chance.choice(METHODS)
        self.how = chance.choice((*KILLED, "stopped", "held"))
        self.stage = chance.choice(("starting", "running", "ending"))
        self.after = chance.uniform(0, 0.25 if self.stage == "starting" else 0.1)
        self.frozen = chance.choice((0.0, 0.01, 0.1, 0.3))
        self.struck, self.victim = 0.0, 0
        self.release = threading.Event()

    def go(self) -> None:
        """Start a group, strike, and look at how it ends."""
        trial = self.trial
        trial.do(f"{self.method}, {self.stage}: {self.how} after {self.after:.3f} s")
        procession.forkserver.close()
        before = {*processes.children(os.getpid())}
        striker = threading.Thread(target=self._strike, args=(before,))
        if self.stage == "starting":
            striker.start()
        began = time.monotonic()
        said, group = "", None
        try:
            group = self._start()
        except procession.StartFailed as e:
            said = str(e)
        took = time.monotonic() - began
        if self.stage == "starting":
            trial.took("until started, or failed", took, STANDS + ANSWER + GRACE + 1)
        elif group is not None:
            if self.stage == "ending":
                group.stop(wait=False)
            striker.start()
        if group is not None:
            said = self._end(group, striker)
        self.release.set()
        striker.join()
        kept = [p for p in processes.children(os.getpid()) if not processes.children(p)]
        left, _ = processes.wait_gone(os.environ[processes.MARK], 5 * SLOW, kept)
        gone = time.monotonic()
        trial.must(not left, f"alive: {processes.named(left)}")
        if self.how in KILLED and self.struck:
            trial.took("until nothing was alive", gone - max(self.struck, began), GRACE + 1)
        if said:
            trial.must("agent" in said, f"the agent is not named: {said[:500]}")
        trial.count("an error" if said else "no error")
        if self.how in KILLED:  # a launch that takes it while it dies fails with that reason
            until(lambda: not processes.alive(self.victim), 5)
        trial.must(procession.run(int, nproc=2, timeout=20) == [0, 0], "the next launch")

    def _start(self) -> Any:
        program: Any = family.be
        if self.method == "command":
            program = [sys.executable, family.__file__]
        return procession.start(
            program,
            nproc=NPROC,
            start_method="forkserver" if self.method == "command" else self.method,
            env={"PYTHONPATH": str(ROOT)},
            stop=procession.Stop(grace=GRACE, linger=GRACE),
            logs=procession.Logs(ranks=[]),
        )

    def _end(self, group: Any, striker: threading.Thread) -> str:
        """Wait for the end of a group that was started; gives what was said of a failure."""
        if self.how in KILLED:
            try:
                group.wait(10 * SLOW)
            except procession.GroupFailed as e:
                return str(e)
            except TimeoutError:
                # It was struck before this group had it.
                self.trial.must(not self.struck, "the group does not end")
            group.stop()
            return ""
        striker.join(3)  # if it holds, it goes on to do so
        began = time.monotonic()
        failed = ""
        if self.stage == "running" and self.trial.chance.random() < 0.5:
            send(group.pids()[1], signal.SIGKILL)
            try:
                group.wait(10 * SLOW)
                self.trial.problems.append("the group did not fail")
            except procession.GroupFailed as e:
                ranks = [end.rank for end in e.failures]
                self.trial.must(ranks == [1], f"failures: {ranks}")
                failed = str(e) if self.how == "held" else ""
        else:
            group.stop()
        most = GRACE + 1 + (2 * ANSWER if self.how == "held" else 0)
        self.trial.took(f"until the end, {self.how}", time.monotonic() - began, most)
        return failed

    def _strike(self, before: set[int]) -> None:
        """Strike the agent of the group, which is a new child of this process."""
        new = until(lambda: {*processes.children(os.getpid())} - before, 5)
        if not new:
            return
        pid = self.victim = new.pop()
        time.sleep(self.after)
        if self.how == "held":
            with held(pid) as there:
                self.trial.count("held" if there else "gone before it was held")
                if there:
                    self.release.wait(15)
            return
        if self.how != "killed":
            send(pid, signal.SIGSTOP)
            time.sleep(self.frozen)
        if self.how in KILLED:
            send(pid, signal.SIGKILL)
        self.struck = time.monotonic()


def _agents(launcher: Launcher, method: str) -> list[int]:
    here = processes.children(launcher.pid)
    return [p for p in here if method == "fork" or "agent/entry.py" in processes.command_line(p)]


def _launcher_too(trial: Trial) -> None:
    """Strike the agent of a launcher, and then kill that, too."""
    chance, work = trial.chance, trial.place / "work"
    method, how = chance.choice(METHODS), chance.choice(("killed", "stopped"))
    after, gap = chance.uniform(0.2, 1.5), chance.choice((0.0, 0.02, 0.1, 0.5))
    trial.do(f"{method}: {how} after {after:.3f} s, and {gap:g} s later the launcher")
    launcher = Launcher([sys.executable, family.__file__, method], work)
    time.sleep(after)
    began: list[int] = []
    for server in until(lambda: _agents(launcher, method), 5 * SLOW)[:1]:
        began = processes.children(server)
        send(server, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    time.sleep(gap)
    launcher.end(0)
    left, took = launcher.wait_gone(1 * SLOW)
    # A fork of the launcher that is stopped before it has begun stays (docs/reliability.md).
    if how == "stopped" and gap and (began or method != "fork"):
        trial.took("until nothing was alive, launcher killed, too", took, 1.0)
        trial.must(not left, f"alive: {processes.named(left)}")
    trial.count("launcher killed, too" + ": daemons were left" * bool(left))
    # Where both were killed at nearly the same time, or the agent was stopped and the launcher
    # killed before it could take care of it, this is the way.
    done = subprocess.run([COMMAND, "clean"], capture_output=True, text=True, check=False)
    trial.must(done.returncode == 0, f"procession clean: {done.stdout}{done.stderr}")
    if method in MARKED:
        left = launcher.all()
        trial.must(not left, f"alive after procession clean: {processes.named(left)}")
    processes.kill_marked(launcher.own, OWN)


ROW = Row(
    fault="the agent is killed, stopped, stopped and then killed, or held by a debugger, "
    "while a group starts, runs and ends; ranks have children and daemons that ignore signals; "
    "then the launcher is killed, too",
    holds=f"nothing alive after grace ({GRACE} s) + 1 s while the launcher lives; an error that "
    f"names the agent; the next launch works; after both, `procession clean` leaves nothing, "
    f"except with the start method fork. One that is held by a debugger has {2 * ANSWER:g} s more "
    f"to answer; a start under one that stays stopped fails after {STANDS:g} s",
    full=300,
    strike=strike,
    limit=60,
)
