"""The picture of a report in README.md still has the words that are printed today."""

import re

import pytest
from pages import ROOT

from support import run_procession

PICTURES = ROOT / "docs" / "pictures"
# What comes after the cause is chance: on a busy machine, peers fail before they are ended.
OTHERS = re.compile(r"\n(?:when it failed, |failed by themselves, |ended by the group)")
MEASURED = re.compile(r"\d+(?:\.\d+)? (?:ms|s|kB|MB|GB)\b|(?<=pid )\d+|(?<=\()\d+(?= cores)")


def in_any_run(text):
    """Lines up to what became of the others; without what is measured, and marks of newer Pythons.

    These mark calls in the line above.
    """
    told = MEASURED.sub("N", OTHERS.split(text)[0])
    return [line for line in told.splitlines() if not re.match(r"\[|[ ~^]+$", line)]


@pytest.mark.torch
def test_the_picture_of_a_report_has_the_words_of_today(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    captured = (PICTURES / "crash_procession.txt").read_text()
    command, _, shown = captured.partition("\n")
    _, *words = command.removeprefix("$ ").split()
    done = run_procession(*words, cwd=PICTURES, timeout=55)
    assert done.returncode == 1
    said = done.stderr.replace(f"{PICTURES}/", "")
    assert in_any_run(said) == in_any_run(shown)
    assert len(in_any_run(shown)) > 10
