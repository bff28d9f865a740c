"""`procession doctor`: what it says of this machine, and of one where something is missing."""

import json
import os
import sys

import pytest

from seams.cli import doctor
from seams.system import Cgroups, accelerators
from support import run_python

CODE = """
import sys
from procession.cli import doctor
code = doctor.main(sys.argv[1:])
heavy = {"torch", "jax", "numpy", "ray", "cloudpickle", "tblib"} & sys.modules.keys()
sys.exit(f"imported {heavy}" if heavy else code)
"""
NEEDED = {"subreaper", "parent_death_signal", "memfd_create", "eventfd", "proc", "proc_children"}


def run(*words, code=CODE, **env):
    return run_python("-c", code, *words, timeout=300, env={**os.environ, **env})


REFUSED = CODE.replace(
    "code =",
    """
import errno, os
def refuse():
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))
doctor.FEATURES = [(key, thing, refuse, *words) for key, thing, _, *words in doctor.FEATURES]
code =""",
)


def finding(key):
    (found,) = (f for look in (doctor.limits, doctor.python) for f in look() if f.key == key)
    return found


def test_what_it_says_of_this_machine():
    told = run()
    assert (told.returncode, told.stderr) == (0, "")
    lines = told.stdout.splitlines()
    assert lines[-1] == "Everything that procession needs is there."
    assert [line for line in lines[:-1] if line and line[0] != " "] == [*doctor.GROUPS]
    marks = {line[2:14].strip() for line in lines if line.startswith("  ")}
    assert marks <= {"ok", "-", "falls back", ""}
    data = json.loads(run("--json", PYTHONIOENCODING="ascii").stdout)
    assert (data["ok"], data["missing"]) == (True, [])
    assert {n for n, f in data["groups"]["kernel"].items() if f["needed"]} == NEEDED
    assert data["groups"]["python"]["executable"]["value"] == sys.executable
    assert not any("\n" in f["value"] for found in data["groups"].values() for f in found.values())


def test_without_features():
    """Each is named, with what happens then; the code says whether anything works."""
    told = run(code=REFUSED)
    assert (told.returncode, told.stderr) == (1, "")
    refused = [line for line in told.stdout.splitlines() if "not permitted" in line]
    assert len(refused) == len(doctor.FEATURES)
    assert sum(line.startswith("  missing ") for line in refused) == len(NEEDED)
    assert told.stdout.count("-> procession cannot launch anything") == len(NEEDED)
    assert "procession does not work here; missing: prctl(PR_SET_CHILD_SUBREAPER)" in told.stdout


def test_the_users_directories(tmp_path):
    (tmp_path / "procession").mkdir(mode=0o755)
    told = run("--json", XDG_RUNTIME_DIR=str(tmp_path), XDG_STATE_HOME="/proc/nowhere")
    found = json.loads(told.stdout)["groups"]["kernel"]
    assert "others may enter" in found["control"]["value"]
    assert found["state"]["mark"] == "falls back"


@pytest.mark.parametrize(
    ("change", "key", "mark", "value"),
    [
        ((doctor.resource, "getrlimit", lambda _: (1024, 4096)), "open_files", "ok", "about 165"),
        ((doctor.resource, "getrlimit", lambda _: (32, 64)), "open_files", "falls back", "about 0"),
        ((Cgroups, "cores", lambda _: 0.5), "quota", "falls back", "0.5"),
        ((doctor.os, "statvfs", lambda _: os.statvfs_result([1] * 11)), "tmp", "falls back", "1 b"),
    ],
)
def test_limits(change, key, mark, value, monkeypatch):
    monkeypatch.setattr(accelerators, "find", list)
    monkeypatch.setattr(*change)
    found = finding(key)
    assert found.mark == mark
    assert value in found.value
    assert bool(found.instead and found.advice) == (mark not in ("ok", "-"))
