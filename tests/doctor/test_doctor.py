"""`procession doctor`: what it says of this machine, and of one where something is missing."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest

from seams.cli import doctor
from seams.system import TRIALS, Cgroups, OomWatch, accelerators, why_not

CODE = """
import sys
from procession.cli import doctor
code = doctor.main(sys.argv[1:])
heavy = {"torch", "jax", "numpy", "ray", "cloudpickle", "tblib"} & sys.modules.keys()
sys.exit(f"imported {heavy}" if heavy else code)
"""
NEEDED = {"subreaper", "parent_death_signal", "memfd_create", "eventfd", "proc", "proc_children"}


def run(*words, **env):
    return subprocess.run(
        [sys.executable, "-c", CODE, *words], capture_output=True, text=True, timeout=300,
        env={**os.environ, **env}, check=False,
    )  # fmt: skip


def call(capsys, *words):
    code = doctor.main([*words])
    return code, capsys.readouterr().out


def finding(key):
    (found,) = (f for look in doctor.GROUPS.values() for f in look() if f.key == key)
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


@pytest.mark.parametrize("name", TRIALS)
def test_without_a_feature(name, monkeypatch, capsys):
    """It is named, with what happens then and what helps; the code says whether anything works."""

    def refuse():
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setitem(TRIALS, name, refuse)
    code, text = call(capsys)
    mark, then = ("missing", "cannot launch anything") if name in NEEDED else ("falls back", "")
    assert code == (name in NEEDED)
    assert [line for line in text.splitlines() if "not permitted" in line and mark in line]
    assert f"-> procession {then}" in text
    assert ("procession does not work here; missing: " in text) == (name in NEEDED)


@pytest.mark.parametrize(
    ("trial", "why"),
    [
        (signal.pause, "its trial did not end"),
        (lambda: os.kill(os.getpid(), 9), "its trial did not end"),
        (lambda: os.no_such_call(), "this Python was built without it"),
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: os.open("/nowhere", 0), "No such file or directory"),
        (os.getpid, ""),
    ],
)
def test_why_a_trial_fails(trial, why):
    assert why_not(trial) == why


def test_the_users_directories(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "procession").mkdir(mode=0o755)
    assert "others may enter" in finding("control").value
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert finding("state").mark == "falls back"


@pytest.mark.parametrize(
    ("change", "key", "mark", "value"),
    [
        ((doctor.resource, "getrlimit", lambda _: (1024, 4096)), "open_files", "ok", "about 165"),
        ((doctor.resource, "getrlimit", lambda _: (32, 64)), "open_files", "falls back", "about 0"),
        ((Cgroups, "cores", lambda _: 0.5), "quota", "falls back", "0.5"),
        ((OomWatch, "whole_machine", True), "oom_kill", "falls back", "of the whole machine"),
        ((doctor.os, "statvfs", lambda _: os.statvfs_result([1] * 11)), "tmp", "falls back", "0 M"),
        ((doctor.sys, "executable", ""), "executable", "missing", "is empty"),
    ],
)
def test_limits(change, key, mark, value, monkeypatch):
    monkeypatch.setattr(accelerators, "find", list)
    monkeypatch.setattr(*change)
    found = finding(key)
    assert found.mark == mark
    assert value in found.value
    assert bool(found.instead and found.advice) == (mark not in ("ok", "-"))
