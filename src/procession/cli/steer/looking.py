"""`procession ps`, `report` and `stacks`: what is known of runs."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from typing import Any

from procession.cli.commands import parser_of
from procession.cli.say import say_note, say_out
from procession.cli.steer.finding import command_line
from procession.cli.words import Option
from procession.control.ask import NotAnswered
from procession.control.leftover import read_processes
from procession.control.runs import Run, connect, ended, living
from procession.control.words import alive, describe, step, table
from procession.explain.stacks import merge
from procession.output.rankfiles import open_regular
from procession.system.files import disk_is_full
from procession.system.identity import lives, pid_of
from procession.system.processes import ProcessInfo, below
from procession.values.figures import size

PS = """\
RANKS is the number of ranks that are alive. STEP is the lowest step that a rank has reported by
procession.beat(). MEMORY is the resident memory of all processes of the run on this machine, with
shared pages counted in each. A job on several nodes is one run. If its launcher is on another
machine, PID names that machine.

STATE is PART for ranks of a job whose driver is on the machine in PID; use the commands there. AWAY
means that the launcher is on that machine, SILENT that it does not answer, and LOST that it was
killed. UNSEEN is a run of a program without control=True, or of a launcher with another
XDG_RUNTIME_DIR or TMPDIR. KEPT is a process that a run with --warm left for the next run: see
procession warm.

exit codes: 0; 2 for a wrong command line.
"""
REPORT = """\
The report of a past run is in its directory, so it needs --log-dir or --detach.

exit codes: 0 if there is a report; 1 if not; 2 for a wrong command line or an unknown run.
"""
STACKS = """\
exit codes: 0; 1 if the run does not answer; 2 for a wrong command line or an unknown run.
"""
NOBODY = "no rank is at its program: they have not started yet, or have ended"
PARSERS = {
    "ps": parser_of(
        "ps", "[--all] [--json]", PS,
        (
            Option(("-a", "--all"), "", "list past runs, too"),
            Option(("--json",), "", "print all facts as JSON"),
        ),
    ),
    "report": parser_of("report", "RUN", REPORT),
    "stacks": parser_of(
        "stacks", "RUN [--native] [--json]", STACKS,
        (
            Option(("--native",), "", "include frames of native code, by py-spy"),
            Option(("--json",), "", "print the stacks as JSON"),
        ),
    ),
}  # fmt: skip


def ps(options: dict[str, Any]) -> int:
    """List the runs; returns the exit code."""
    running = living()
    now = read_processes()
    found = [_row_of(run, now) for run in running]
    others = ended(running)
    known = {pid for run in running for pid in run.launchers}
    found += [_row_of(run, now) for run in others if run.runs and run.launcher not in known]
    known |= {row["launcher"] for row in found if row["launcher"]}
    found += _unseen(now, known, {row["id"] for row in found})
    if options.get("all"):
        found += [_row_of(run, now) for run in others if not run.runs]
    if options.get("json"):
        say_out(json.dumps(found, indent=2))
    elif found:
        rows = [("ID", "NAME", "STATE", "RANKS", "ATT", "SINCE", "MEMORY", "STEP", "PID")]
        say_out(table([*rows, *map(_words, found)]))
    else:
        say_note("nothing runs here")
    return 0


def _memory(pids: Sequence[int], processes: dict[int, ProcessInfo]) -> int | None:
    """Give the resident bytes of processes and all below them; None if none is there."""
    found = below(pids, processes) | processes.keys() & pids
    return sum(processes[pid].pages for pid in found) * os.sysconf("SC_PAGE_SIZE") or None


def _row_of(run: Run, processes: dict[int, ProcessInfo]) -> dict[str, Any]:
    look: Mapping[str, Any] = run.look or {}
    result: Mapping[str, Any] = run.result or {}
    told = look or result
    ranks: list[dict[str, Any]] = look.get("ranks", [])
    here = ("", os.uname().nodename)
    own = [r["pid"] for r in ranks if r["pid"] and r.get("host", "") in here]
    return {
        "id": run.id,
        "name": run.name,
        "state": run.state,
        "alive": alive(look) if look else None if run.runs else 0,
        "nproc": told.get("nproc"),
        "attempt": told.get("attempt"),
        "began": run.began or None,
        "launcher": run.launcher or None,
        "host": run.host,
        "hosts": look.get("hosts", []),
        "slurm_job": run.slurm_job,
        "memory": _memory(own, processes),
        "step": step(look) if look else "",
        "run_dir": run.directory,
        "words": look.get("words", []),
        "exit_code": result.get("exit_code"),
        "ranks": ranks,
    }


def _unseen(
    processes: dict[int, ProcessInfo], shown: set[int], listed: set[str]
) -> list[dict[str, Any]]:
    """Give the groups that cannot be asked, by the environment of their ranks.

    shown: launchers whose runs are known. listed: ids of runs that are shown; of one that cannot be
    asked, it is not known which node processes on this machine are its launchers. A rank that is a
    fork carries the mark of its launcher only, which its agent has, too.
    """
    members: dict[str, list[ProcessInfo]] = {}
    for process in processes.values():
        mark = process.env.get("PROCESSION_LAUNCHER", "")
        launcher = pid_of(mark)
        run = process.env.get("PROCESSION_RUN") or process.env.get("PROCESSION_JOB", "")
        if mark and launcher not in shown and launcher != process.parent and run not in listed:
            members.setdefault(mark, []).append(process)
    return [_row_of_unseen(mark, each, processes) for mark, each in members.items()]


def _row_of_unseen(
    mark: str, members: Sequence[ProcessInfo], processes: dict[int, ProcessInfo]
) -> dict[str, Any]:
    def told(name: str) -> str:
        return next((value for p in members if (value := p.env.get(name))), "")

    launcher = pid_of(mark)
    ranks = [p for p in members if processes.get(p.parent) not in members]
    name, driver = told("PROCESSION_RUN"), told("PROCESSION_DRIVER")
    job, world = told("PROCESSION_JOB"), told("LOCAL_WORLD_SIZE")
    if job and name in (job, "") and driver != os.uname().nodename:
        name, state = job, "PART"
    elif launcher == members[0].pid:  # a template carries its own mark
        driver, state = "", "KEPT"
    else:
        driver, state = "", "LOST" if lives(mark) is False else "UNSEEN"
    above = processes.get(launcher, (ranks or members)[0])
    began = min(time.time() - _age(p) for p in members)
    title = name.rpartition("_")[0] or command_line(above.words)
    run = Run(name, title, state, launcher=launcher, host=driver, began=began)
    return _row_of(run, processes) | {
        "alive": 0 if state == "KEPT" else len(ranks),
        "nproc": int(world) if world.isdecimal() else None,
        "memory": _memory([p.pid for p in members], processes),
    }


def _age(process: ProcessInfo) -> float:
    up = time.clock_gettime(time.CLOCK_BOOTTIME)
    return up - process.start / os.sysconf("SC_CLK_TCK")


def _words(row: Mapping[str, Any]) -> tuple[str, ...]:
    code, memory = row["exit_code"], row["memory"]
    ranks = "" if row["alive"] is None else str(row["alive"])
    return (
        row["id"] or "(procession)",
        row["name"] if len(row["name"]) <= 40 else row["name"][:37] + "...",
        row["state"] + (f" ({code})" if code else ""),
        ranks + (f"/{row['nproc']}" if row["nproc"] is not None else ""),
        "" if row["attempt"] is None else str(row["attempt"]),
        "" if row["began"] is None else _since(row["began"]),
        "" if memory is None else size(memory),
        row["step"],
        f"on {row['host']}" if row["host"] else str(row["launcher"] or ""),
    )


def _since(began: float) -> str:
    day = "%H:%M:%S" if time.time() - began < 86400 else "%Y-%m-%d"
    return time.strftime(day, time.localtime(began))


def report(_: dict[str, Any], run: Run) -> int:
    """Print the report; returns the exit code."""
    if run.socket:
        try:
            with connect(run) as connection:
                columns = shutil.get_terminal_size((200, 24)).columns
                say_out(describe(connection.ask("look"), columns))
            return 0
        except NotAnswered as e:
            fault = str(e)
    else:
        fault = "it was started by a program without control=True, and cannot be asked"
        if run.state == "LOST":
            how = "its launcher was killed"
            if disk_is_full(run.directory):
                how += ", or could not write how it ended: the disk of its directory is full"
            fault = f"{how}; what there is of it lies in {run.directory}"
    if text := report_in(run):
        say_out(text)
        return 0
    raise NotAnswered(f"{run.id}: {fault}")


def report_in(run: Run) -> str:
    """Give the report that a run has left in its directory, "" if there is none."""
    try:
        with open_regular(os.path.join(run.directory, "report.txt")) as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


def stacks(options: dict[str, Any], run: Run) -> int:
    """Print the stacks; returns the exit code."""
    if not run.socket:
        why = "cannot be reached" if run.runs else "has ended: no rank is there"
        PARSERS["stacks"].error(f"{run.id} {why}")
    with connect(run) as connection:
        group = connection.ask("look")
        found = connection.ask("stacks", native=bool(options.get("native")))
    if options.get("json"):
        text = json.dumps(found, indent=2)
    else:
        text = merge.format(found, first=int(group["first"])) or NOBODY
    say_out(text)
    return 0
