"""Jobs over three machines with networks of their own, on ssh, Slurm or c10d: one is struck."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from chaos import processes
from chaos.launchers import COMMAND, OWN, Launcher
from chaos.processes import put, until
from chaos.programs import large, saving
from chaos.row import SLOW, Row, Trial
from chaos.rows import of_tests

NODES, NPROC = 3, 2
RANKS = NODES * NPROC
LEASE = 4.0
KINDS = (
    *("node process killed", "agent killed", "driver killed", "driver stopped"),
    *("cut for less than the lease", "cut for longer", "nothing comes out", "nothing comes in"),
    *("told to end", "two ranks fail", "large value"),
)
CUT = KINDS[5:8]
CODES = {"cut for less than the lease": 0, "large value": 0, "told to end": 128 + signal.SIGTERM}
WAYS = {
    "ssh": ("reached by ssh", ("ssh", "sshd", "ssh-keygen")),
    "slurm": ("in an allocation of Slurm", ("munged", "slurmctld", "slurmd", "salloc", "sbatch")),
    "c10d": ("with a launcher on each, and no values", ()),
}
NAMES = ("head", "n1", "n2", "n3")
NOWHERE = "02:00:00:00:00:01"  # an address of the network that nobody has

FAULT = (
    f"a job of {NODES} machines {WAYS['ssh'][0]}, {NPROC} ranks each, with networks of their own: "
    "a node process, an agent or the driver is killed; the driver is stopped beyond the lease; a "
    "machine is cut off for up to 0.3 of the lease, for longer, or in one direction; the job is "
    f"told to end; ranks of two machines fail 5 ms apart; one returns {large.SIZE // 10**6} MB"
)
HOLDS = (
    "the machine or rank that failed first is named; exit codes; ranks that are told to end can "
    "save for 3 s (a second where they have lost the driver of an engine); a short cut changes "
    "nothing; nothing is left on any machine"
)


def _ground() -> dict[str, Any]:
    return json.loads(os.environ["CHAOS_GROUND"])


def hosts() -> list[Any]:
    """Give the machines that `machines` has made, the user's first."""
    return [of_tests("network").Host(_ground()["network"], n) for n in range(len(NAMES))]


class _Job:
    """A job, whose node `node` is struck. launchers: one, or with c10d one on each machine."""

    def __init__(self, engine: str, kind: str, trial: Trial) -> None:
        chance, self.work = trial.chance, trial.place / "work"
        self.engine, self.kind, self.trial = engine, kind, trial
        self.saves = chance.choice((0.1, 3.0))
        least = int(engine == "c10d" and kind in ("node process killed", "agent killed"))
        self.node = 0 if kind == "driver killed" else chance.randrange(least, NODES)
        self.ground, self.hosts = _ground(), hosts()
        trial.do(f"{kind}: node {self.node}; ranks save for {self.saves:g} s")
        self.struck = time.monotonic()
        self.launchers = [self._launch(n) for n in range(NODES if engine == "c10d" else 1)]

    def _launch(self, number: int) -> Launcher:
        place = self.work / f"launcher{number}"
        place.mkdir()
        env = {"CHAOS_PLACE_OF_JOB": str(self.work)}
        argv = [COMMAND, "run", "-n", str(NPROC), "--lease", str(LEASE), "--shutdown-timeout", "10"]
        program = [saving.__file__, str(self.saves)]
        if self.kind == "large value":
            argv, program = [sys.executable, large.__file__, self.engine, str(LEASE)], []
        elif self.engine == "c10d":
            env["PROCESSION_JOB_KEY"] = "0123456789abcdef-of-a-trial"
            argv += ["--nnodes", str(NODES), "--rdzv-backend", "c10d", "--rdzv-id", "J"]
            argv += ["--rdzv-endpoint", f"{self.hosts[1].address}:29400", "--rdzv-conf"]
            argv += [f"join_timeout=60,is_host={int(number == 0)}"]
        else:
            argv += ["--engine", self.engine]
        if self.engine == "slurm":
            # The shell waits for the driver: salloc itself gives 0 where a signal has ended it.
            shell = ["sh", "-c", '"$@"; exit $?', "-"]
            argv = ["salloc", "--quiet", "--no-kill", f"-N{NODES}", *shell, *argv]
        elif self.engine == "ssh" and program:
            argv += ["--hosts", "n1,n2,n3", f"--engine-options=-F {self.ground['config']}"]
            argv += ["-x", f"CHAOS_PLACE_OF_JOB={self.work}"]
        at = number + 1 if self.engine == "c10d" else 0
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', NAMES[at]]
        return Launcher(self.hosts[at].command(*named, *argv, *program), place, env)

    def start(self) -> None:
        """Wait for all ranks."""
        there = until(lambda: len(self._ranks()) == RANKS, 30 * SLOW)
        assert there, f"the job does not start: {[t[-400:] for t in self._texts()]}"

    def _ranks(self) -> dict[int, int]:
        return {int(p.suffix[1:]): int(p.read_text()) for p in self.work.glob("there.*")}

    def _texts(self) -> list[str]:
        return [each.text() for each in self.launchers]

    def strike(self) -> None:
        """Let it happen."""
        kind, host, chance = self.kind, self.hosts[self.node + 1], self.trial.chance
        process = agent = processes.parent(self._ranks()[self.node * NPROC])
        while "engines.nodeprocess" not in processes.command_line(process) and process > 1:
            process = processes.parent(process)
        driver = self.launchers[self.node if self.engine == "c10d" else 0].pid
        if self.engine == "c10d":
            process = driver
        elif self.engine == "slurm":  # below salloc and its shell
            (driver,) = processes.children(*processes.children(driver))
        self.struck = time.monotonic()
        if kind == "told to end":
            processes.send(driver, signal.SIGTERM)
        elif kind == "two ranks fail":
            other = (self.node + chance.randrange(1, NODES)) % NODES
            for late, node in enumerate((self.node, other)):
                put(self.work / f"fail.{node * NPROC}", str(self.struck + 0.3 + 0.005 * late))
        elif "killed" in kind:
            of = {"agent killed": agent, "driver killed": driver, "node process killed": process}
            processes.send(of[kind], signal.SIGKILL)
        elif kind == "driver stopped":
            processes.send(driver, signal.SIGSTOP)
            until(self._others_ended, (2 * LEASE + self.saves + 3) * SLOW)
            self.struck = time.monotonic()
            processes.send(driver, signal.SIGCONT)
        elif kind == "cut for less than the lease":
            host.cut()
            time.sleep(LEASE * chance.uniform(0.1, 0.3))  # from a third on, TCP may wait too long
            host.mend()
            time.sleep(LEASE * 1.5)
            (self.work / "end").touch()
            self.struck = time.monotonic()
        elif kind == "cut for longer":
            host.cut()
        else:
            self._one_way("replace", "lladdr", NOWHERE, "nud", "permanent")

    def _others_ended(self) -> bool:
        """Tell whether all have ended but for a driver that is stopped, and ranks of its own."""
        if self.engine == "c10d":
            others = [each for n, each in enumerate(self.launchers) if n != self.node]
            return all(each.process.poll() is not None for each in others)
        return not any(map(processes.alive, self._ranks().values()))

    def _one_way(self, what: str, *words: str) -> None:
        """Lose, or have again, what is sent in one direction between a machine and all others."""
        mine = self.hosts[self.node + 1]
        for host in self.hosts:
            source, to = (mine, host) if self.kind == "nothing comes out" else (host, mine)
            if host is not mine:
                ip = of_tests("network").ip
                ip("-n", source.name, "neigh", what, to.address, "dev", host.cable, *words)

    def mend(self) -> None:
        """Have the network whole."""
        if self.kind == "cut for longer":
            self.hosts[self.node + 1].mend()
        elif "nothing" in self.kind:
            self._one_way("del")

    def judge(self) -> None:
        """Wait for the end of all launchers, and look at what they and their ranks did."""
        kind, trial = self.kind, self.trial
        right = CODES.get(kind, 1)
        ends = self.engine != "c10d" and "driver" in kind  # nobody saves then, or has done so
        saved = self.saves if right and not ends else 0.0
        most = 2 * LEASE if kind in CUT else 30.0 if kind == "large value" else 0.0
        codes = [each.end((most + saved + 20) * SLOW) for each in self.launchers]
        took, most = time.monotonic() - self.struck - saved, most + 3
        if kind == "cut for longer":
            trial.took("until the end after a cut", took, most)
        else:
            trial.must(took <= most * SLOW, f"{took:.1f} s until the end")
        self.mend()
        struck = self.node if self.engine == "c10d" else 0 if "driver" in kind else -1
        for n, text in enumerate(self._texts()):
            if n == struck and kind in ("driver killed", "node process killed"):
                trial.must(codes[n] in (-9, 137), f"{n} has ended with {codes[n]}")
                continue
            trial.must(
                codes[n] == right, f"exit code {codes[n]} of {n}, not {right}: {text[-600:]}"
            )
            named = self._named(n == struck, text)
            trial.must(named, f"{n} does not name the cause: {text[-1500:]}")
        for rank in range(RANKS):
            there = (self.work / f"saved.{rank}").exists() or not self._must_save(rank)
            trial.must(there, f"rank {rank} could not save: {self._texts()}")
        for launcher in self.launchers:
            left, _ = launcher.wait_gone(2 * SLOW)
            trial.must(not left, f"alive: {processes.named(left)}")
        if "killed" in kind:  # who was killed could not tidy up
            done = subprocess.run([COMMAND, "clean"], capture_output=True, text=True, check=False)
            trial.must(done.returncode == 0, f"procession clean: {done.stdout}{done.stderr}")
        if self.engine == "ssh":
            self._judge_hosts()
        trial.count(kind)

    def _named(self, own: bool, text: str) -> bool:
        """Tell whether a launcher names the cause. own: it is the one that is struck."""
        kind, c10d = self.kind, self.engine == "c10d"
        lost = [rf"node {n} \(n{n + 1}\).* is lost" for n in range(NODES)]
        on_it = f"[{self.node * NPROC}-{(self.node + 1) * NPROC - 1}]"
        if kind == "two ranks fail":
            told = re.findall(r"rank (\d+) .* raised ArithmeticError: (\d+)", text)
            first = min(told, key=lambda each: int(each[1]), default=("", ""))[0]
            head = re.split("when it failed|failed by themselves|ended by the group", text)[0]
            named = {*re.findall(r"rank (\d+) of", head)}
            self.trial.count("the first named" if len(named) == 1 else "both named")
            return first in named
        if kind == "agent killed":
            wanted = f" failed: rank {on_it} of .* killed when its agent was lost"
        elif kind == "told to end":
            wanted = "was stopped by SIGTERM"
        elif kind == "driver stopped" and (own or not c10d):
            wanted = f"this process itself was stopped|{lost[0]}"
        elif own and kind in CUT:  # it has lost the host of the rendezvous, or as that all others
            wanted = "|".join(each for n, each in enumerate(lost) if n != self.node)
        elif kind in CODES:
            wanted = ""
        else:
            wanted = lost[self.node]
            if not re.search(f" failed: rank {on_it} of|ended here: node {self.node} ", text):
                return False
        return bool(re.search(wanted, text))

    def _must_save(self, rank: int) -> bool:
        """Tell whether a rank has the time to save."""
        kind, here = self.kind, rank // NPROC == self.node
        if CODES.get(kind) == 0 or (self.work / f"fail.{rank}").exists():
            return False
        if kind == "driver stopped":  # ranks that ssh holds have a second
            return self.saves < 1 or self.engine != "ssh"
        if kind == "driver killed":
            return self.engine == "c10d" and not here
        if "killed" in kind:
            return not here
        return not (here and kind in CUT) or self.engine == "c10d"

    def _judge_hosts(self) -> None:
        """Look for what is left on hosts that ssh reaches."""
        name, _, value = str(self.ground["mark"]).partition("=")
        left, _ = processes.wait_gone(value, 10 * SLOW, name=name)
        self.trial.must(not left, f"alive over there: {processes.named(left)}")
        root = Path(self.ground["root"])
        for path in (*root.glob("tmp/*"), *root.glob("run/*/*")):
            self.trial.problems.append(f"left over there: {path}")
            shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """End what is left of it."""
        with contextlib.suppress(Exception):
            self.mend()
        for each in self.launchers:
            processes.kill_marked(each.own, OWN)
            each.end(0)


def strike(engine: str, kinds: tuple[str, ...], trial: Trial) -> None:
    """Start a job, let something happen, and look at how it ends."""
    kind = kinds[trial.seed % len(kinds)]
    job = _Job(engine, kind, trial)
    try:
        if kind != "large value":
            job.start()
            time.sleep(trial.chance.uniform(0, 0.3))
            job.strike()
        job.judge()
    finally:
        job.close()


def lacks(engine: str) -> str:
    """Tell what this machine lacks for one, "" for nothing."""
    try:
        missing = of_tests("cluster.machines").missing(WAYS[engine][1])
        network = of_tests("network")
    except ImportError as e:
        return f"the tests' extra is not installed: {e}"
    try:
        with network.network(1):
            return f"no {', '.join(missing)}" if missing else ""
    except network.pytest.skip.Exception as e:
        return str(e)


@contextlib.contextmanager
def machines(engine: str) -> Iterator[None]:
    """Have machines, and let what is started in the meantime find them."""
    before = dict(os.environ)
    with of_tests("network").network(len(NAMES)) as hosts, contextlib.ExitStack() as stack:
        stack.callback(os.environ.update, before)
        stack.callback(os.environ.clear)
        ground = {"network": hosts[0].name[: -len("h0")]}
        if engine == "ssh":
            cluster = of_tests("cluster.sshcluster").SshCluster(hosts, places=True)
            ground |= {"config": cluster.config, "root": cluster.root, "mark": cluster.mark}
        elif engine == "slurm":
            cluster = of_tests("cluster.slurmcluster").SlurmCluster(NODES, hosts=hosts)
        else:
            cluster = None
        if cluster is not None:
            stack.callback(cluster.stop)
            cluster.start()
            os.environ.update(cluster.env)
        os.environ["CHAOS_GROUND"] = json.dumps(ground)
        yield


def _row(engine: str) -> Row:
    first = engine == "ssh"
    kinds = KINDS[:-1] if engine == "c10d" else KINDS
    return Row(
        fault=FAULT if first else f"the same machines, {WAYS[engine][0]}",
        holds=HOLDS if first else "the same",
        full=20 * len(kinds),
        strike=partial(strike, engine, kinds),
        limit=120 * SLOW,
        lacks=partial(lacks, engine),
        around=partial(machines, engine),
    )


ROW = {engine: _row(engine) for engine in WAYS}
