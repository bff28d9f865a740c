"""Jobs of three launchers: one of them, its machine, its link or the host is lost."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from chaos import processes
from chaos.launchers import COMMAND, OWN, Launcher
from chaos.processes import kill_marked, until
from chaos.programs import saving
from chaos.row import SLOW, Row, Trial
from chaos.wires import Wire

NODES, NPROC = 3, 2
LEASE = 1.5 * SLOW
KINDS = (
    *("agent killed", "node killed", "host killed", "link cut", "link silent", "launcher frozen"),
    *("a rank fails", "told to end"),
)
SLOW_ONES = ("link silent", "launcher frozen")  # a lease has to pass


def strike(trial: Trial) -> None:
    """Start a job, let something be lost, and look at how all launchers end."""
    from procession.system.ports import free_port

    chance, work = trial.chance, trial.place / "work"
    kind = chance.choice(KINDS)
    saves = chance.choice((0.1, 0.1, 3.0))
    node = 0 if kind == "host killed" else chance.randrange(1, NODES)
    if kind in ("a rank fails", "told to end"):
        node = chance.randrange(NODES)
    trial.do(f"{kind}: node {node}; ranks save for {saves:g} s")
    job = _Job(work, free_port(), node, saves)
    try:
        if not job.runs(trial):
            return
        time.sleep(chance.uniform(0, 0.3))
        job.strike(kind)
        job.judge(trial, kind)
    finally:
        job.close()


class _Job:
    """Launchers of one job; `node` is the one that is struck, whose link is a wire of ours."""

    def __init__(self, work: Path, port: int, node: int, saves: float) -> None:
        self.work, self.node, self.saves = work, node, saves
        self.wire = Wire(port)
        self.launchers: list[Launcher] = []
        for number in range(NODES):
            place = work / f"node{number}"
            place.mkdir()
            at = self.wire.port if number == node and number else port
            conf = f"join_timeout=60,is_host={int(number == 0)}"
            argv = [COMMAND, "run", "--nnodes", str(NODES), "-n", str(NPROC), "--lease", str(LEASE)]
            argv += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{at}"]
            argv += ["--rdzv-id", "J", "--rdzv-conf", conf, "--shutdown-timeout", "10"]
            argv += ["--local-addr", f"127.0.0.{number + 1}"]
            argv += [saving.__file__, str(saves), str(node * NPROC)]
            env = {
                "PROCESSION_JOB_KEY": "0123456789abcdef-of-a-trial",
                "CHAOS_PLACE_OF_JOB": str(work),
            }
            self.launchers.append(Launcher(argv, place, env))
        self.struck = 0.0

    def runs(self, trial: Trial) -> bool:
        """Wait for all ranks; tells whether they came."""
        there = until(lambda: len([*self.work.glob("there.*")]) == NODES * NPROC, 20 * SLOW)
        said = [each.text()[-300:] for each in self.launchers]
        trial.must(there, f"the job does not start: {said}")
        return there

    def strike(self, kind: str) -> None:
        """Let it happen."""
        victim = self.launchers[self.node]
        self.struck = time.monotonic()
        if kind in ("agent killed", "host killed"):
            victim.send(signal.SIGKILL)
        elif kind == "node killed":
            for _ in range(3):
                kill_marked(victim.own, OWN)
        elif kind == "link cut":
            self.wire.close()  # and nobody can come back
        elif kind == "link silent":
            self.wire.silence()
        elif kind == "launcher frozen":
            victim.send(signal.SIGSTOP)
        elif kind == "told to end":
            victim.send(signal.SIGTERM)
        else:
            (self.work / "fail").touch()

    def judge(self, trial: Trial, kind: str) -> None:
        """Wait for the end of all launchers, and look at what they and their ranks did."""
        lost = "killed" in kind
        most = (LEASE * 2 if kind in SLOW_ONES or "link" in kind else 0.0) + self.saves + 3
        others = [n for n in range(NODES) if n != self.node or not (lost or kind in SLOW_ONES)]
        codes = {n: self.launchers[n].end((most + 20) * SLOW) for n in others}
        took = time.monotonic() - self.struck
        what = "a loss that a lease tells" if kind in SLOW_ONES else kind
        trial.took(f"until all ended, less saving: {what}", took - self.saves, most - self.saves)
        if kind == "launcher frozen":
            self.launchers[self.node].send(signal.SIGCONT)
        if self.node not in codes and not lost:
            codes[self.node] = self.launchers[self.node].end((most + 20) * SLOW)
        said = {n: self.launchers[n].text() for n in range(NODES)}
        for n, code in codes.items():
            trial.must(bool(code), f"node {n}: exit code {code}: {said[n][-600:]}")
            self._cause(trial, kind, n, said[n])
        for n in codes:  # of all that were not killed, also if they have lost the others
            for rank in range(n * NPROC, (n + 1) * NPROC):
                if rank == self.node * NPROC and kind == "a rank fails":
                    continue
                saved = (self.work / f"saved.{rank}").exists()
                trial.must(saved, f"rank {rank} of node {n} could not save")
        for n, launcher in enumerate(self.launchers):
            left, _ = launcher.wait_gone(2 * SLOW)
            trial.must(not left, f"alive on node {n}: {processes.named(left)}")
        if lost:  # who was killed could not tidy up
            done = subprocess.run([COMMAND, "clean"], capture_output=True, text=True, check=False)
            trial.must(done.returncode == 0, f"procession clean: {done.stdout}{done.stderr}")
        trial.count(kind)

    def _cause(self, trial: Trial, kind: str, n: int, said: str) -> None:
        if kind == "a rank fails":
            right = f"rank {self.node * NPROC} of" in said and "ArithmeticError: on purpose" in said
        elif kind == "told to end":
            right = "SIGTERM" in said
        elif n == self.node:
            right = "lost" in said or "lease" in said  # it has lost the others
        else:
            right = f"node {self.node} " in said and "lost" in said
        trial.must(right, f"node {n} does not name the cause: {said[-700:]}")

    def close(self) -> None:
        """End what is left of it."""
        self.wire.close()
        for each in self.launchers:
            kill_marked(each.own, OWN)
            each.end(0)


ROW = Row(
    fault=f"a job of {NODES} launchers with {NPROC} ranks each: a launcher, its machine or the "
    "host is killed, a link is cut or falls silent, a launcher is frozen beyond the lease, told to "
    "end, or a rank fails; ranks save for up to 3 s",
    holds="each launcher names the cause; ranks whose launcher lives have the time to save, also "
    "where it has lost the host; nothing left on any node",
    full=300,
    strike=strike,
    limit=180 * SLOW,
)
