"""Engines that installed packages add: chosen by name, and told by --engine-options."""

import sys

import pytest

from cli.commandline import run
from seams.jobs import find_kind
from seams.values import SpecError
from support import write

PACKAGE = """
    import os, subprocess, threading
    from procession.engines.contract import SLOT, Chosen, SlotGone

    class Engine:
        name = "cloud"

        def __init__(self, slots, zone):
            self.slots, self.zone, self.processes = slots, zone, []

        def check(self):
            pass

        def start(self, agent, tell):
            for slot in range(self.slots):
                env = {**os.environ, **agent.env, SLOT: str(slot), "ZONE": self.zone}
                self.processes.append(
                    subprocess.Popen(agent.argv, env=env, stdin=subprocess.DEVNULL))

        def replace(self, slot):
            raise NotImplementedError

        def kill(self):
            for process in self.processes:
                process.kill()

        def close(self):
            for process in self.processes:
                process.wait()

    class Kind:
        def choose(self, request):
            engine = Engine(request.nodes or 1, request.options.get("engine_options", "anywhere"))
            return Chosen(engine, request.share, engine.slots)

    KIND = Kind()
"""
ENTRIES = """
    [procession.engines]
    cloud = cloudengine:KIND
    broken = cloudengine:MISSING
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with two engines, the second one faulty."""
    write(tmp_path / "site" / "cloudengine.py", PACKAGE)
    about = tmp_path / "site" / "cloudengine-1.0.dist-info"
    write(about / "METADATA", "Metadata-Version: 2.1\nName: cloudengine\nVersion: 1.0\n")
    write(about / "entry_points.txt", ENTRIES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    return write(tmp_path / "zone.py", "import os; print(os.environ['ZONE'], os.environ['RANK'])")


def test_it_runs_ranks_as_it_is_told(installed):
    done = run("--engine", "cloud", "--engine-options", "a", "--nnodes", "2", installed)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0:0] a 0", "[1:1] a 1"]


def test_it_has_no_option_of_another_engine(installed):
    done = run("--engine", "cloud", "--hosts", "h1", installed)
    assert done.returncode == 2
    assert "--hosts is for --engine ssh" in done.stderr


def test_one_that_cannot_be_imported(installed):
    done = run("--engine", "broken", installed)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "engine broken of cloudengine:MISSING cannot be imported: AttributeError" in line


def test_a_name_that_nobody_has(installed, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    with pytest.raises(SpecError, match=r"there are slurm, ray, ssh, broken, cloud"):
        find_kind("clout")
