"""`procession ps`: list the runs of this user, and groups of other launchers."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from procession.cli.say import say
from procession.cli.steer.finding import command_line, parser_of, read_alone
from procession.cli.words import Option
from procession.control.foreign import Foreign, group_foreign
from procession.control.processes import Process, below, read_processes
from procession.control.runs import Run, ended, living
from procession.control.words import alive, step, table, used
from procession.system.identity import lives, pid_of

SAMPLE = 0.2  # seconds over which the use of CPU is measured
EPILOG = """\
Shown are the runs of this user, and the groups of other launchers (torchrun, accelerate, mpirun,
srun, multiprocessing, ray) as far as they can be told by what runs. RANKS is how many are alive,
STEP what the rank that is furthest behind has told by procession.beat(). CPU is what all processes
of the run on this machine use now (100% is one core), MEMORY what they have resident, shared pages
counted in each. A job over several machines is one run; where its launcher is on another machine,
PID names that.

STATE is PART for ranks of a job that is driven from the machine that PID names, where it is to be
steered; AWAY if the launcher is, or was, on that machine; SILENT if the launcher does not answer,
UNSEEN if it is a program of your own that started the run without control=True, or if the launcher
has another directory for its sockets (XDG_RUNTIME_DIR, TMPDIR) than this log-in, and LOST if the
launcher was killed.

exit codes: 0; 2 for a wrong command line.
"""
PARSER = parser_of(
    "ps", "[--all] [--json]", EPILOG,
    (
        Option(("-a", "--all"), "", "also runs that have ended"),
        Option(("--json",), "", "print all that is known as JSON"),
    ),
)  # fmt: skip


def main(words: list[str]) -> int:
    """List the runs; returns the exit code."""
    options = read_alone(PARSER, words)
    running = living()
    before = read_processes()
    began = time.monotonic()
    time.sleep(SAMPLE)
    now = read_processes()
    usage = _Usage(before, now, time.monotonic() - began)
    found = [_row_of(run, usage) for run in running]
    others = ended(running)
    known = {pid for run in running for pid in run.launchers}
    found += [_row_of(run, usage) for run in others if run.runs and run.launcher not in known]
    known |= {row["launcher"] for row in found if row["launcher"]}
    listed = {row["id"] for row in found}
    found += _unseen(now, known, listed, usage)
    found += [_row_of_foreign(group, usage) for group in group_foreign(now)]
    if options.all:
        found += [_row_of(run, usage) for run in others if not run.runs]
    if options.json:
        say(json.dumps(found, indent=2) + "\n", sys.stdout)
    elif found:
        say(_as_table(found), sys.stdout)
    else:
        say("procession: nothing runs here\n", sys.stderr)
    return 0


class _Usage:
    """How much CPU and memory processes use. pids: the living ones, by pid."""

    def __init__(
        self, before: Mapping[int, Process], now: Mapping[int, Process], seconds: float
    ) -> None:
        self.pids = now
        self._before = before
        self._seconds = seconds

    def of(self, pids: Sequence[int]) -> tuple[float | None, int | None]:
        """Give cores and resident bytes of processes and all below them."""
        wanted = [self.pids[pid] for pid in below(pids, self.pids)]
        if not wanted:
            return None, None
        spent = 0.0
        for process in wanted:
            before = self._before.get(process.pid)
            same = before is not None and before.start == process.start
            spent += process.cpu - (before.cpu if before is not None and same else process.cpu)
        return round(spent / self._seconds, 3), sum(p.memory for p in wanted)


def _row_of(run: Run, usage: _Usage) -> dict[str, Any]:
    look = run.look
    ranks: list[dict[str, Any]] = look["ranks"] if look is not None else []
    here = ("", os.uname().nodename)
    cpu, memory = usage.of([r["pid"] for r in ranks if r["pid"] and r.get("host", "") in here])
    result = run.result
    return _row(run.id, "procession", run.name, run.state) | {
        "alive": alive(look) if look is not None else 0 if not run.runs else None,
        "nproc": look["nproc"] if look is not None else result["nproc"] if result else None,
        "attempt": look["attempt"] if look is not None else result["attempt"] if result else None,
        "began": run.began or None,
        "launcher": run.launcher or None,
        "host": run.host,
        "hosts": look.get("hosts", []) if look is not None else [],
        "slurm_job": run.slurm_job,
        "cpu": cpu,
        "memory": memory,
        "step": step(look) if look is not None else "",
        "run_dir": run.directory,
        "words": look["words"] if look is not None else [],
        "exit_code": result["exit_code"] if result else None,
        "ranks": ranks,
    }


def _unseen(
    processes: Mapping[int, Process], shown: set[int], listed: set[str], usage: _Usage
) -> list[dict[str, Any]]:
    """Give the groups that cannot be asked, by the environment of their ranks.

    shown: launchers whose runs are known. listed: ids of runs that are shown; of one that cannot be
    asked, it is not known which agents on this machine are its launchers. A rank that is a fork
    carries the mark of its launcher only, which its forkserver has, too.
    """
    members: dict[str, list[Process]] = {}
    for process in processes.values():
        mark = process.env.get("PROCESSION_LAUNCHER", "")
        launcher = pid_of(mark)
        run = process.env.get("PROCESSION_RUN") or process.env.get("PROCESSION_JOB", "")
        if mark and launcher not in shown and launcher != process.parent and run not in listed:
            members.setdefault(mark, []).append(process)
    found: list[dict[str, Any]] = []
    for mark, each in members.items():
        launcher = pid_of(mark)
        state = "LOST" if lives(mark) is False else "UNSEEN"
        ranks = [p for p in each if processes.get(p.parent) not in each]
        run = next((r for p in each if (r := p.env.get("PROCESSION_RUN"))), "")
        job = next((j for p in each if (j := p.env.get("PROCESSION_JOB"))), "")
        driver = next((h for p in each if (h := p.env.get("PROCESSION_DRIVER"))), "")
        if job and run in (job, "") and driver != os.uname().nodename:
            run, state = job, "PART"
        else:
            driver = ""
        world = next((w for p in ranks if (w := p.env.get("LOCAL_WORLD_SIZE"))), "")
        above = processes.get(launcher, ranks[0] if ranks else each[0])
        cpu, memory = usage.of([p.pid for p in each])
        found.append(
            _row(run, "procession", run.rpartition("_")[0] or command_line(above.words), state)
            | {"alive": len(ranks), "nproc": int(world) if world.isdecimal() else None}
            | {"launcher": launcher, "host": driver, "cpu": cpu, "memory": memory}
            | {"began": min(_began(p) for p in each)}
        )
    return found


def _row(run: str, kind: str, name: str, state: str) -> dict[str, Any]:
    return {
        "id": run, "kind": kind, "name": name, "state": state, "alive": None, "nproc": None,
        "attempt": None, "began": None, "launcher": None, "host": "", "hosts": [], "slurm_job": "",
        "cpu": None, "memory": None, "step": "",
        "run_dir": "", "words": [], "exit_code": None, "ranks": [],
    }  # fmt: skip


def _row_of_foreign(group: Foreign, usage: _Usage) -> dict[str, Any]:
    cpu, memory = usage.of(group.pids)
    began = min(_began(usage.pids[pid]) for pid in group.pids)
    return _row("", group.kind, command_line(group.words), "") | {
        "alive": len(group.ranks),
        "nproc": group.world or None,
        "began": began,
        "launcher": group.launcher or None,
        "cpu": cpu,
        "memory": memory,
        "ranks": [{"rank": rank, "pid": pid} for rank, pid in sorted(group.ranks.items())],
    }


def _began(process: Process) -> float:
    up = time.clock_gettime(time.CLOCK_BOOTTIME) - process.start / os.sysconf("SC_CLK_TCK")
    return time.time() - up


def _as_table(found: Sequence[Mapping[str, Any]]) -> str:
    rows = [("ID", "NAME", "STATE", "RANKS", "ATT", "SINCE", "CPU", "MEMORY", "STEP", "PID")]
    rows += [_words(row) for row in found]
    return table(rows)


def _words(row: Mapping[str, Any]) -> tuple[str, ...]:
    code = row["exit_code"]
    ranks = "" if row["alive"] is None else str(row["alive"])
    return (
        row["id"] or f"({row['kind']})",
        row["name"] if len(row["name"]) <= 40 else row["name"][:37] + "...",
        row["state"] + (f" ({code})" if code else ""),
        ranks + (f"/{row['nproc']}" if row["nproc"] is not None else ""),
        "" if row["attempt"] is None else str(row["attempt"]),
        "" if row["began"] is None else _since(row["began"]),
        *used(row["cpu"], row["memory"]),
        row["step"],
        f"on {row['host']}" if row["host"] else str(row["launcher"] or ""),
    )


def _since(began: float) -> str:
    day = "%H:%M:%S" if time.time() - began < 86400 else "%Y-%m-%d"
    return time.strftime(day, time.localtime(began))
