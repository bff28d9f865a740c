"""The pictures of terminals still have the words that are shown today."""

import re
import runpy

import pytest
from pages import ROOT

from support import run_procession

PICTURES = ROOT / "docs" / "pictures"
# What comes after the cause is chance: on a busy machine, peers fail before they are ended.
OTHERS = re.compile(
    r"\n(?:when it failed|failed by them|ended by the|simultaneous failures|not started:)"
)
RANKS = re.compile(r" +(?:rank \d|\d ranks) .*|\[.*\] waiting|")  # where they are, and who is first
MEASURED = re.compile(  # and which of those that do not start is the first
    r"\d+(?:\.\d+)? (?:ms|s|kB|MB|GB)\b|(?<=pid )\d+|(?<=\()\d+(?= cores)|(?<=sh failed: rank )\d"
)


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


@pytest.mark.parametrize("name", ["raise", "sigkill", "start", "ctrl_c", "ctrl_c_twice", "sigterm"])
def test_screens_have_the_words_of_today(monkeypatch, name):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    drawing = runpy.run_path(str(ROOT / "docs" / "draw_terminals.py"))
    shown = drawing["capture"](drawing["SCENES"][name], 200)
    drawn = (PICTURES / f"{name}_200.txt").read_text()
    words = [
        [line for line in re.sub(r"\d+ lines", "N lines", MEASURED.sub("N", text)).splitlines()
         if not RANKS.fullmatch(line)]
        for text in (OTHERS.split(shown)[0], OTHERS.split(drawn)[0])
    ]  # fmt: skip
    assert words[0] == words[1]
    assert len(words[0]) > 2
    assert re.search(r"\.(?:py|sh) (?:failed: rank|was stopped by) .", "\n".join(words[0]))
