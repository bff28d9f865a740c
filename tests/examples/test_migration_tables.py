"""The tables of the migration pages name each option and each name of what they replace.

What is replaced is asked: its parser, its signatures, its `--help`.
"""

import inspect
import re
import shutil
import subprocess
from importlib import import_module
from importlib.util import find_spec

import pytest
from pages import ROOT

import procession.xla

DOCS = ROOT / "docs"
needs_torch = [
    pytest.mark.torch,
    pytest.mark.skipif(not find_spec("torch"), reason="torch is not installed"),
]


def named(page, heading):
    """Give the words in code in the first column of the tables below a heading."""
    text = (DOCS / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    assert len(cells) > 5
    code = " ".join(part for cell in cells for part in re.findall(r"`([^`]*)`", cell))
    return {word.lstrip("-") for word in re.findall(r"--?[\w-]+|\w+", code)}


@pytest.mark.parametrize("_", [pytest.param(0, marks=needs_torch)])
def test_torchrun(_):
    parser = import_module("torch.distributed.run").get_args_parser()
    there = named("migrating.md", "From torchrun")
    missing = [
        action.option_strings
        for action in parser._actions
        if action.option_strings
        and action.dest != "help"
        and there.isdisjoint(each.lstrip("-") for each in action.option_strings)
    ]
    assert missing == []


@pytest.mark.parametrize("_", [pytest.param(0, marks=needs_torch)])
def test_spawn(_):
    torchs = import_module("torch.multiprocessing.spawn")
    names = set(torchs.__all__)
    public = [vars(torchs)[name] for name in torchs.__all__]
    for each in public:
        names |= inspect.signature(each).parameters.keys()
        if inspect.isclass(each):
            members = [name for name in vars(each) if not name.startswith("_")]
            names |= {*members, *inspect.signature(getattr(each, "join", each)).parameters}
    assert names - named("migrating.md", "From `torch.multiprocessing.spawn`") <= {"self"}


def test_torch_xla():
    names = set(procession.xla.__all__)
    for each in (procession.xla.spawn, procession.xla.launch):
        names |= inspect.signature(each).parameters.keys()
    assert names - named("migrating.md", "From torch_xla") == set()


@pytest.mark.skipif(not shutil.which("mpirun"), reason="there is no mpirun")
def test_mpirun():
    """All of Open MPI's, but those for its own developers, and for older versions of it."""
    there = named("migrating-others.md", "From `mpirun` and `mpiexec`")
    missing = []
    for category in ("general", "mapping", "ranking", "binding", "launch", "output", "input"):
        done = subprocess.run(
            ["mpirun", "--allow-run-as-root", "--help", category],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        options = re.findall(r"^ *(-\S+)", done.stdout, re.MULTILINE)
        missing += [
            words
            for words in options
            if there.isdisjoint(word.lstrip("-") for word in words.split("|"))
        ]
    assert missing == []
