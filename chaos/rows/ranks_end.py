"""A random rank of 8 ends at a random stage, in any of many ways."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import procession
from chaos.programs import ending, peers, ways
from chaos.row import Row, Trial
from chaos.rows import failure_of
from chaos.runner import ROOT

GRACE = 0.3
NPROC = 8
SIZES = (1, 1000, 65_536, 1_000_000, 20_000_000, 200_000_000)
LINE = re.compile(r"(\[\d\] )?line (\d) (\d+) (([a-z]{26})*) end")


def strike(trial: Trial) -> None:
    """Run a group in which one rank ends."""
    chance = trial.chance
    what = chance.choice(("function", "function", "script", "command"))
    loser = chance.randrange(NPROC)
    stages = {"function": ending.STAGES, "script": ending.SCRIPT_STAGES}.get(what, ("later",))
    stage = chance.choice(stages)
    way = chance.choice(list(ways.HARD if stage in ending.HARD_ONLY else ways.WAYS))
    if stage in ("unpickle", "value") and way in ways.SOFT:
        way = "ValueError"
    simple = [each for each in ways.HARD if re.fullmatch(r"SIG\w+|_exit \d+", each)]
    if what == "command" or stage == "finalise":
        way = chance.choice(simple)
    kinds = [chance.choice(peers.KINDS) for _ in range(NPROC)]
    after, size = chance.uniform(0, 0.05), chance.choice(SIZES[: 3 if chance.random() < 0.9 else 6])
    method = chance.choice(("forkserver", "forkserver", "spawn", "fork"))
    if what != "function":
        method = "forkserver" if method == "fork" else method
    if stage == "unpickle" or what == "command":
        method = "forkserver"
    if stage == "atexit" and method == "fork":
        method = "spawn"  # a fork of the launcher runs no exit handlers
    if stage == "finalise" and what == "function":
        method = "spawn"  # a fork finalises what the program itself has made, and not this module
    work = trial.place / "work"
    env = {"CHAOS_WORK": str(work), "PYTHONPATH": str(ROOT)}
    program: Any = ending.Ending(loser, stage, way, after, kinds, size)
    if what == "script":
        arguments = (str(loser), stage, way, str(after), ",".join(kinds))
        program = procession.Script(ending.__file__, arguments)
        (work / "struck_by_import.py").write_text(
            f"from chaos.programs.ways import strike\nstrike({way!r})\n"
        )
        env["PYTHONPATH"] += f":{work}"
        if stage == "bootstrap":
            method = "spawn"
            (work / "sitecustomize.py").write_text(
                f"import os\nif os.environ.get('RANK') == '{loser}':\n"
                f"    from chaos.programs.ways import strike\n    strike({way!r})\n"
            )
    elif what == "command":
        program = ["sh", "-c", _command(loser, way, after)]
    mode = chance.choice(("quiet", "console", "files", "tee"))
    logs = {
        "quiet": procession.Logs(ranks=[]),
        "console": procession.Logs(),
        "files": procession.Logs(work / "logs", redirect=procession.Std.ALL),
        "tee": procession.Logs(work / "logs", tee=procession.Std.ALL),
    }[mode]
    trial.do(f"{what}, {method}, {mode}: rank {loser} {way} at {stage}, peers {','.join(kinds)}")
    stop = procession.Stop(grace=GRACE, linger=GRACE)
    failed = failure_of(
        program,
        nproc=NPROC,
        env=env,
        start_method=method,
        logs=logs,
        stop=stop,
        timeout=20,
    )
    ended = time.monotonic()
    _judge(trial, failed, loser, way, stage)
    struck = work / "struck"
    if struck.exists():
        took = ended - float(struck.read_text())
        if way == "limit of CPU time":
            trial.took("until the end, with the CPU time", took, GRACE + 4)
        else:
            trial.took("until the end", took, GRACE + 1)
    if stage not in {"bootstrap", "unpickle"} and what != "command":
        _lines(trial, loser, mode, work)
    trial.count(what)


def _command(loser: int, way: str, after: float) -> str:
    code = ways.expected(way)[1]
    end = f"exit {code}" if code > 0 else f"kill {code} $$"
    return f"[ $RANK = {loser} ] || exec sleep 100; sleep {after:.3f}; {end}; sleep 100"


def _judge(trial: Trial, failed: Any, loser: int, way: str, stage: str) -> None:
    outcome, code = ways.expected(way)
    if stage == "value" and way in ways.EXCEPTIONS:
        outcome = "UNPICKLABLE"
    cause = failed.cause
    if stage == "value" and way in ways.HARD and cause.outcome.name == "TORN_VALUE":
        outcome = "TORN_VALUE"
    told = (cause.rank, cause.outcome.name, cause.exit.returncode)
    trial.must(told == (loser, outcome, code), f"cause {told}, not {(loser, outcome, code)}")
    trial.must(
        [e.rank for e in failed.failures] == [loser],
        f"failures: {[(e.rank, e.outcome.name) for e in failed.failures]}",
    )
    ends = (*failed.failures, *failed.ended, *failed.finished)
    trial.must(
        sorted(e.rank for e in ends) == list(range(NPROC)),
        f"not every rank is told of: {sorted(e.rank for e in ends)}",
    )
    str(failed)


def _lines(trial: Trial, loser: int, mode: str, work: Path) -> None:
    """Look for lines that are lost or torn, on the console and in files."""
    if mode in ("console", "tee"):
        with open(f"{os.environ['CHAOS_PLACE']}/console", encoding="utf-8") as f:
            _look(trial, "the console", f.read(), loser)
    if mode in ("files", "tee"):
        whole = ""
        for path in sorted(work.glob("logs/*/attempt_0/*/stdout.log")):
            text = path.read_text()
            _look(trial, path.parent.name, text, None)
            whole += text
        trial.must(f"line {loser} 0  end\n" in whole, "the loser's line is not in its file")


def _look(trial: Trial, where: str, text: str, loser: int | None) -> None:
    lines = [line for line in text.splitlines() if "line " in line]
    for line in lines:
        found = LINE.fullmatch(line)
        torn = found is None and re.match(r"(\[\d\] )?line \d", line) is not None
        trial.must(not torn, f"torn in {where}: {line[:100]!r}")
        if found is not None:
            short = len(found[4]) != 26 * (int(found[3]) % 40)
            trial.must(not short, f"part of a line is lost in {where}: {line[:100]!r}")
            mixed = found[1] is not None and found[1][1] != found[2]
            trial.must(not mixed, f"a line of another rank in {where}: {line[:100]!r}")
    if loser is not None:
        trial.must(f"[{loser}] line {loser} 0  end" in lines, f"the loser's line is not in {where}")


ROW = Row(
    fault="a random rank of 8 ends at a random stage (before the bootstrap, in an import, "
    "unpickling, the program, a thread, the return of a value of 1 B to 200 MB, atexit, "
    f"finalisation) in any of {len(ways.WAYS)} ways",
    holds=f"right cause; ended within grace ({GRACE} s) + 1 s; no line lost or torn",
    full=1500,
    strike=strike,
)
