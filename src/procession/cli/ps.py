"""`procession ps`: what runs here, ours and others'."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from procession.cli.parser import Parser
from procession.cli.say import say
from procession.cli.steering import command_line, parser_of, read_alone
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
of the run use now (100% is one core), MEMORY what they have resident, shared pages counted in each.

STATE is SILENT if the launcher does not answer, UNSEEN if it is a program of your own that started
the run without control=True, and LOST if the launcher was killed.

exit codes: 0; 2 for a wrong command line.
"""


def make_parser() -> Parser:
    """Make the parser."""
    parser = parser_of("ps", "[--all] [--json]", EPILOG)
    parser.add_argument("-a", "--all", action="store_true", help="also runs that have ended")
    parser.add_argument("--json", action="store_true", help="print all that is known as JSON")
    return parser


def main(words: list[str]) -> int:
    """List the runs; returns the exit code."""
    options = read_alone(make_parser(), words)
    running = living()
    before = read_processes()
    began = time.monotonic()
    time.sleep(SAMPLE)
    now = read_processes()
    usage = _Usage(before, now, time.monotonic() - began)
    found = [_row_of(run, usage) for run in running]
    others = ended(running)
    known = {run.launcher for run in running}
    found += [_row_of(run, usage) for run in others if run.runs and run.launcher not in known]
    found += _unseen(now, {row["launcher"] for row in found if row["launcher"]}, usage)
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
    """What processes use. pids: by pid, those that live."""

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
    cpu, memory = usage.of([r["pid"] for r in ranks if r["pid"] is not None])
    result = run.result
    return {
        "id": run.id,
        "kind": "procession",
        "name": run.name,
        "state": run.state,
        "alive": alive(look) if look is not None else 0 if not run.runs else None,
        "nproc": look["nproc"] if look is not None else result["nproc"] if result else None,
        "attempt": look["attempt"] if look is not None else result["attempt"] if result else None,
        "began": run.began or None,
        "launcher": run.launcher or None,
        "cpu": cpu,
        "memory": memory,
        "step": step(look) if look is not None else "",
        "run_dir": run.directory,
        "words": look["words"] if look is not None else [],
        "exit_code": result["exit_code"] if result else None,
        "ranks": ranks,
    }


def _unseen(
    processes: Mapping[int, Process], shown: set[int], usage: _Usage
) -> list[dict[str, Any]]:
    """Give the groups of programs that let nobody look at them, by what their ranks carry.

    shown: launchers whose runs are known. A rank that is a fork carries the mark of its launcher
    only, which its forkserver has, too.
    """
    members: dict[str, list[Process]] = {}
    for process in processes.values():
        mark = process.env.get("PROCESSION_LAUNCHER", "")
        launcher = pid_of(mark)
        if mark and launcher not in shown and launcher != process.parent:
            members.setdefault(mark, []).append(process)
    found: list[dict[str, Any]] = []
    for mark, each in members.items():
        launcher = pid_of(mark)
        state = "LOST" if lives(mark) is False else "UNSEEN"
        ranks = [p for p in each if processes.get(p.parent) not in each]
        run = next((r for p in each if (r := p.env.get("PROCESSION_RUN"))), "")
        world = next((w for p in ranks if (w := p.env.get("LOCAL_WORLD_SIZE"))), "")
        above = processes.get(launcher, ranks[0] if ranks else each[0])
        cpu, memory = usage.of([p.pid for p in each])
        found.append(
            _row(run, "procession", run.rpartition("_")[0] or command_line(above.words), state)
            | {"alive": len(ranks), "nproc": int(world) if world.isdecimal() else None}
            | {"launcher": launcher, "cpu": cpu, "memory": memory}
            | {"began": min(_began(p) for p in each)}
        )
    return found


def _row(run: str, kind: str, name: str, state: str) -> dict[str, Any]:
    return {
        "id": run, "kind": kind, "name": name, "state": state, "alive": None, "nproc": None,
        "attempt": None, "began": None, "launcher": None, "cpu": None, "memory": None, "step": "",
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
        str(row["launcher"] or ""),
    )


def _since(began: float) -> str:
    day = "%H:%M:%S" if time.time() - began < 86400 else "%Y-%m-%d"
    return time.strftime(day, time.localtime(began))


__all__ = ["main", "make_parser"]
