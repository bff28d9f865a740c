"""A session of pytest in which many tests in ranks fail, each in a random way."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chaos.programs import ways
from chaos.row import Row, Trial
from chaos.runner import ROOT

TESTS = 12  # that fail, in one session
LIMIT = 5.0  # seconds that a test has which hangs
AMPLE = 100.0  # and one that does not
SOFT = {
    "ValueError": "ValueError: no",
    "KeyError": "KeyError: 'no'",
    "OSError": "OSError: [Errno 5] no: 'file'",
    "AssertionError": "AssertionError",
    "MemoryError": "MemoryError",
    "StopIteration": "StopIteration",
    "TimeoutError": "TimeoutError",
    "cancelled": "asyncio.exceptions.CancelledError",
    "long message": "ValueError: xxxxxxxx",
    "unfriendly": "chaos.programs.ways.Unfriendly",
    "no Exception": "chaos.programs.ways.OfNoKind: no",
    "chain": "ValueError: then",
    "recursion": "RecursionError: maximum recursion depth exceeded",
    "UnicodeDecodeError": "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff",
    "SyntaxError": "SyntaxError",
    "in a handler": "ArithmeticError: rung",
    "exit with a text": "SystemExit: a text",
}
HANGS = {"hang": "is in _hang ", "hang in C": "is in _hang_in_c ", "stop": "is stopped"}
LEFT = ("child", "daemon", "fork")
DISAGREE = {"skip": "skipped it (why not)", "xfail": "failed as expected (known here)"}
# After these, the test goes on to its end, which the others have to do, too.
GO_ON = (*LEFT, *DISAGREE, "thread", "close all", "teardown")
OTHERS = ("assert", "assert in all", "daemon and death", "kill parent", "no gather", "set-up")
ALL = (*OTHERS, *GO_ON, *HANGS)
PEERS = ("sleeps", "sleeps", "stubborn", "computes", "has a child")
Said = list[tuple[str, str, str]]  # what failed, its message, all that is told of it
MESSES = ("directory", "environment", "umask", "signals", "modules", "output", "limits")


def strike(trial: Trial) -> None:
    """Run a session, and judge what it says of each test."""
    chance, work = trial.chance, trial.place / "work"
    torch = chance.random() < 0.2 and find_spec("torch") is not None
    cases: list[dict[str, Any]] = []
    for number in range(TESTS):
        cases += (_case(chance, number, torch), _none(chance, number))
    (work / "cases").write_text(json.dumps(cases))
    words: list[str] = []
    if chance.random() < 0.2 and find_spec("xdist") is not None:
        words += ["-p", "xdist", "-n", "2"]
    shown = not words and chance.random() < 0.15
    if shown:
        words.append("-s")
    for case in cases:
        if case["way"] != "none":
            trial.do(", ".join(f"{name} {value}" for name, value in case.items()))
            trial.count("tests that failed")
    trial.do(f"options {words}, torch {torch}")
    env = {
        **os.environ,
        "CHAOS_CASES": str(work / "cases"),
        "CHAOS_WORK": str(work),
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "procession.pytest.plugin"]
    command += [*words, "-p", "no:cacheprovider", "--rootdir", str(work), "-rA"]
    command += [f"--junitxml={work}/report.xml", "-o", "junit_logging=all"]
    command += [f"--basetemp={work}/base", f"{ROOT}/chaos/programs/tests_that_fail.py"]
    done = subprocess.run(command, cwd=work, env=env, stdout=subprocess.PIPE, check=False)
    trial.must(done.returncode == 1, f"exit code {done.returncode}: {done.stdout[-2000:]!r}")
    told = _told(work / "report.xml")
    trial.must(len(told) == len(cases), f"{len(told)} tests of {len(cases)} were reported")
    for case in cases:
        for problem in _judged(case, told.get(f"test_case[{case['id']}]"), shown):
            trial.problems.append(f"{case['id']}: {problem}")
    first: Any = None
    for path in sorted(work.glob("*.found")):
        found = json.loads(path.read_text())
        first = first or found
        odd = {name for name in found if found[name] != first[name]}
        trial.must(not odd, f"{path.stem} found what others did not: {[found[n] for n in odd]}")
        trial.must(not found["seen"], f"{path.stem} ran after {found['seen']}")


def _method(chance: random.Random) -> str:
    return chance.choices(("fork", "keep", "spawn"), (8, 2, 1))[0]


def _none(chance: random.Random, number: int) -> dict[str, Any]:
    """Make a test that passes."""
    ranks, method = chance.randint(2, 4), _method(chance)
    case = {"ranks": ranks, "method": method, "way": "none", "loser": 0, "mess": ""}
    return {"id": f"{number} none", **case, "peers": ["passes"] * ranks, "timeout": AMPLE}


def _case(chance: random.Random, number: int, torch: bool) -> dict[str, Any]:
    """Make a test that fails."""
    ranks, method = chance.randint(2, 4), _method(chance)
    way = chance.choice([*ways.WAYS, "_exit 0"] if chance.random() < 0.4 else ALL)
    if (way == "thread" and method == "keep") or (way in HANGS and method == "spawn"):
        method = "fork"  # ranks that are kept may keep threads; to begin may take fresh ones long
    odd = chance.choice(("gathers", "passes"))  # who gathers is told of who passes, and fails
    peers = [chance.choice((*PEERS, odd)) for _ in range(ranks)]
    if way in GO_ON:
        peers = ["passes"] * ranks
    elif way == "no gather":
        peers = ["gathers"] * ranks
    elif torch and method != "spawn" and chance.random() < 0.5:
        peers = ["reduces"] * ranks
    mess = chance.choice(MESSES) if chance.random() < 0.4 else ""
    return {
        "id": f"{number} {way}",
        "ranks": ranks,
        "method": method,
        "way": way,
        "loser": chance.randrange(ranks),
        "mess": mess,
        "peers": peers,
        "timeout": LIMIT if way in HANGS else AMPLE,
    }


def _told(path: Path) -> dict[str, Said]:
    """Read a report: by test, what failed, its message, and all that is said."""
    told: dict[str, Said] = {}
    for each in ET.parse(path).iter("testcase"):
        found = told.setdefault(str(each.get("name")), [])
        text = "".join(part.text or "" for part in each)
        for part in each:
            if part.tag in ("failure", "error", "skipped"):
                found.append((part.tag, part.get("message", ""), text))
    return told


def _judged(case: dict[str, Any], told: Said | None, shown: bool) -> list[str]:
    """Say what is wrong in what was told of a test."""
    if told is None:
        return ["nothing is told of it"]
    if case["way"] == "none":
        return [f"it failed: {message}: {text[-1500:]}" for _, message, text in told]
    if len(told) != 1:
        return [f"told {len(told)} times: {told}"]
    ((kind, message, text),) = told
    way, loser, ranks = case["way"], case["loser"], case["ranks"]
    wrong: list[str] = []
    wanted = "error" if way in ("set-up", "teardown") else "failure"
    if kind != wanted:
        wrong.append(f"it is a {kind}: {message}")
    pattern = _headline(case)
    if re.search(pattern, message) is None:
        wrong.append(f"{message!r} is not {pattern!r}; {text[-1500:]}")
    if way in HANGS and f"rank {loser} {HANGS[way]}" not in text:
        wrong.append(f"rank {loser} does not show in {text[-1500:]}")
    _, others, after = text.partition("other ranks")
    if others and message.startswith("rank "):
        named = {int(message.split()[1])} | _numbers(after)
        if named != {*range(ranks)}:
            wrong.append(f"only ranks {named} are told of: {message}: {text[-1500:]}")
    spoke = way not in ("set-up", "assert in all", "close all")
    # Of one who is not the first to fail, only the last lines are shown.
    cut = way in ("no gather", "kill parent") and case["mess"] == "output"
    if spoke and not cut and not shown and f"this is the loser of {case['id']}" not in text:
        wrong.append("what the rank wrote is lost")
    if spoke and case["mess"] == "output" and not shown and "\nthe last line" not in text:
        wrong.append("the last of what the rank wrote is lost")
    return wrong


def _numbers(text: str) -> set[int]:
    """Find all ranks of whom a line says what became of them."""
    found: set[int] = set()
    for folded in re.findall(r"^ranks? ([\d,-]+):", text, re.MULTILINE):
        for part in folded.split(","):
            low, _, high = part.partition("-")
            found |= {*range(int(low), int(high or low) + 1)}
    return found


def _headline(case: dict[str, Any]) -> str:
    """Give the pattern of what the first line about a test must say."""
    way, ranks = case["way"], case["ranks"]
    of = f"rank {case['loser']} of {ranks} "
    if way in SOFT or way.startswith("exit "):
        said = SOFT.get(way, "SystemExit: " + way.removeprefix("exit "))
        return re.escape(f"{of}failed first: {said}")
    if way in HANGS:
        return f"^the test had not ended after {LIMIT:g} s$"
    if way in LEFT:
        return "^the test left a process behind: pid "
    if way in DISAGREE:
        said = re.escape(f"rank {case['loser']} {DISAGREE[way]}")
        return f"^the ranks do not agree: .*{said}"
    special = {
        "assert": f"^{of}failed first: assert {case['loser']} == {ranks}$",
        "assert in all": rf"^rank (\d) of {ranks} failed first: assert \1 == {ranks}$",
        "daemon and death": f"^{of}was killed by SIGKILL",
        "kill parent": rf"^rank \d of {ranks} was killed when its forkserver was lost",
        "no gather": rf"^rank \d of {ranks} failed first: RuntimeError: rank {case['loser']} has "
        "ended its test without gather",
        "set-up": f'"{of}failed first in setup: LookupError: before the test"',
        "teardown": f'"{of}failed first in teardown: LookupError: after the test"',
        "thread": f"rank {case['loser']} had not ended: its thread endless went on",
        "close all": f"^{of}",
        "_exit 0": f"^{of}exited with code 0 in its test",
    }
    if way in special:
        return special[way]
    outcome, code = ways.expected(way)
    if outcome == "EXITED":
        return f"^{of}exited with code {code}"
    return f"^{of}was killed by {signal.Signals(-code).name}"


ROW = Row(
    fault=f"{TESTS} tests of 2 to 4 ranks in a session of pytest, each of which fails in any of "
    f"{len({*ways.WAYS, *ALL}) + 1} ways, beside ranks that wait, compute, ignore SIGTERM; passing "
    "tests between them",
    holds="each failed test is told of once, with the rank and what it did; the others passed and "
    "found nothing changed",
    full=25,
    trials=4,
    short=1,
    strike=strike,
    limit=230.0,
    lacks=lambda: "" if find_spec("pytest") else "pytest is not installed",
)
