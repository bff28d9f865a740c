"""Runs of pytest in a process of their own, and what came of them."""

import os
import signal
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field

import pytest

QUIET = ("-p", "no:randomly", "-p", "no:asyncio", "-p", "no:cacheprovider")


@dataclass
class Run:
    """What a run of pytest said. cases: outcome and message of each test, by its name."""

    code: int
    text: str
    cases: dict = field(default_factory=dict)

    def message(self, name):
        return self.cases[name][1]

    def part(self, name):
        """Give what the report says of a failed test."""
        _, _, after = self.text.partition(f"_ {name} _")
        return after.partition("\n____")[0].partition("\n====")[0]

    @property
    def outcomes(self):
        return {name: outcome for name, (outcome, _) in self.cases.items()}


def begun(where, *args, env=None, quiet=QUIET, prefix=(), **files):
    """Write files (`test_a` becomes test_a.py) and start pytest on them.

    prefix: words before pytest's.
    """
    for name, text in files.items():
        (where / f"{name}.py").write_text(textwrap.dedent(text))
    (where / "pytest.ini").touch()
    report = f"--junitxml={where}/report.xml"
    words = [*prefix, sys.executable, "-m", "pytest", *quiet, report, "-rA", *args]
    words += [f"--basetemp={where}/base"]
    return subprocess.Popen(
        words,
        cwd=where,
        env={**os.environ, "COLUMNS": "120", **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process, where, limit=150):
    """Give what a run has come to, when it has ended."""
    with process:
        try:
            text, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # it says where its ranks are
            text, _ = process.communicate(timeout=30)
            pytest.fail(f"this run of pytest had not ended after {limit} s:\n{text}")
        finally:
            process.kill()
    found = Run(process.returncode, text)
    report = where / "report.xml"
    if report.exists():
        for case in ET.parse(report).iter("testcase"):
            kind = next((e for e in case if e.tag in ("failure", "error", "skipped")), None)
            said = "" if kind is None else kind.get("message", "")
            found.cases[case.get("name")] = ("passed" if kind is None else kind.tag, said)
    return found


def run(where, *args, limit=150, **more):
    """Run pytest, as `begun` starts it."""
    return ended(begun(where, *args, **more), where, limit)
