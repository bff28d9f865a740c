"""The tables of the migration pages name each option and each name of what they replace.

What is replaced is asked: its parser, its signatures, its `--help`.
"""

import inspect
import json
import re
import shutil

import pytest
from pages import ROOT

import procession.xla
from support import require, run_program, run_python

DOCS = ROOT / "docs"


def named(page, heading):
    """Give the words in code in the first column of the tables below a heading."""
    text = (DOCS / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    assert len(cells) > 5
    code = " ".join(part for cell in cells for part in re.findall(r"`([^`]*)`", cell))
    return {word.lstrip("-") for word in re.findall(r"--?[\w-]+|\w+", code)}


TORCHRUNS = """
import json
from torch.distributed.run import get_args_parser
told = [a.option_strings for a in get_args_parser()._actions if a.dest != "help"]
print(json.dumps([each for each in told if each]))
"""
SPAWNS = """
import inspect, json
import torch.multiprocessing
from sys import modules
torchs = modules["torch.multiprocessing.spawn"]
names = set(torchs.__all__)
for each in [vars(torchs)[name] for name in torchs.__all__]:
    names |= inspect.signature(each).parameters.keys()
    if inspect.isclass(each):
        names |= {name for name in vars(each) if not name.startswith("_")}
        names |= inspect.signature(getattr(each, "join", each)).parameters.keys()
print(json.dumps(sorted(names - {"self"})))
"""


def told_by(script):
    """Ask torch, in another process: in this one it would make each fork slow."""
    require("torch")
    return json.loads(run_python("-c", script, timeout=50).stdout)


@pytest.mark.torch
def test_torchrun():
    there = named("from-torchrun.md", "Options")
    missing = [
        options
        for options in told_by(TORCHRUNS)
        if there.isdisjoint(each.lstrip("-") for each in options)
    ]
    assert missing == []


@pytest.mark.torch
def test_spawn():
    assert set(told_by(SPAWNS)) <= named("from-torchrun.md", "From `torch.multiprocessing.spawn`")


def test_torch_xla():
    names = set(procession.xla.__all__)
    for each in (procession.xla.spawn, procession.xla.launch):
        names |= inspect.signature(each).parameters.keys()
    assert names - named("integrations/interfaces.md", "`torch_xla`") == set()


@pytest.mark.skipif(not shutil.which("mpirun"), reason="there is no mpirun")
def test_mpirun():
    """All of Open MPI's, but those for its own developers, and for older versions of it."""
    there = named("integrations/launchers.md", "mpirun and mpiexec")
    missing = []
    for category in ("general", "mapping", "ranking", "binding", "launch", "output", "input"):
        done = run_program("mpirun", "--allow-run-as-root", "--help", category, timeout=30)
        options = re.findall(r"^ *(-\S+)", done.stdout, re.MULTILINE)
        missing += [
            words
            for words in options
            if there.isdisjoint(word.lstrip("-") for word in words.split("|"))
        ]
    assert missing == []
