"""Launcher and forkserver are killed together, where ranks are contained."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from chaos import processes
from chaos.holding import send
from chaos.launchers import COMMAND, Launcher
from chaos.programs import forking
from chaos.row import SLOW, Row, Trial

NEEDED = {"pidns": "namespaces", "cgroup": "kill_group"}


def possible() -> list[str]:
    """Give the ways of containing that this machine allows."""
    from procession.system import probe

    return [kind for kind, feature in NEEDED.items() if probe.try_feature(feature).works]


def strike(trial: Trial) -> None:
    """Kill both, and sometimes their guard, in any order."""
    chance, work = trial.chance, trial.place / "work"
    contain = chance.choice(possible())
    guarded = chance.random() < (0.8 if contain == "cgroup" else 0.5)
    early = chance.random() < 0.3
    after, gap = chance.uniform(0, 1.0 if early else 0.1), chance.choice((0.0, 0.0, 0.001, 0.01))
    asked = "auto" if contain == "cgroup" and chance.random() < 0.3 else contain
    launcher = Launcher([sys.executable, forking.__file__, asked, str(work)], work)
    deadline = time.monotonic() + 20
    while not early and len([*work.glob("there.*")]) < forking.NPROC:
        if time.monotonic() > deadline:
            trial.problems.append(f"no ranks: {launcher.text()[-800:]}")
            break
        time.sleep(0.005)
    time.sleep(after)
    launcher.send(signal.SIGSTOP)  # so that it does nothing between the two
    guard = launcher.forkserver()
    below = processes.children(guard) if guard else []
    victims = [launcher.pid, *below[:1]]
    if not guarded and guard:
        send(guard, signal.SIGSTOP)  # the number of what is below stays what it is
        victims.append(guard)
    chance.shuffle(victims)
    trial.do(
        f"{contain} (asked for: {asked}), {'early, ' * early}after {after:.3f} s: "
        + "launcher, forkserver"
        + (" and guard" if not guarded else "")
        + f", {gap:g} s apart"
    )
    for victim in victims:
        send(victim, signal.SIGKILL)
        time.sleep(gap)
    launcher.process.wait()
    if guarded or contain == "pidns":
        left, took = launcher.wait_gone(5 * SLOW)
        trial.took("until nothing was alive", took, 1.0)
        trial.must(not left, f"alive: {processes.named(left)}")
    mark = f"@{launcher.pid}-"
    groups = _groups(mark)
    if guarded:
        trial.must(not groups, f"left: {groups}")
    trial.count(f"{contain}, {'there' if below else 'before the forkserver'}")
    # Only what nobody was there to remove is left for this.
    done = subprocess.run([COMMAND, "clean"], capture_output=True, text=True, check=False)
    trial.must(done.returncode == 0, f"procession clean: {done.stdout}{done.stderr}")
    trial.must(not _groups(mark), f"left after procession clean: {groups}")
    left, _ = launcher.wait_gone(SLOW)
    trial.must(not left, f"alive after procession clean: {processes.named(left)}")


def _groups(mark: str) -> list[str]:
    from procession.system import killgroup
    from procession.system.cgroups import highest_place

    top = highest_place()
    deadline = time.monotonic() + SLOW
    while True:
        found = [path for path, _ in killgroup.find(top) if mark in os.path.basename(path)]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.01)


ROW = Row(
    fault="launcher and forkserver are killed together, with `--contain pidns` and `cgroup`, "
    "daemons that fork on; in some trials their guard, too",
    holds="nothing alive after 1 s, no cgroup left; with `cgroup` and the guard killed, nothing "
    "after `procession clean`",
    full=200,
    trials=33,
    short=2,
    strike=strike,
    limit=60,
    lacks=lambda: "" if possible() else "neither `pidns` nor `cgroup` can be had",
)
