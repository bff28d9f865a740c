"""`procession doctor` as a command, on this machine."""

import errno
import json
import os
import subprocess
import sys

import pytest

from seams.cli import doctor
from seams.system import KILLS_OF_ALL, Cgroups, OomWatch, accelerators, memory_groups, numa, probe

CODE = """
import sys
from procession.cli import doctor
code = doctor.main(sys.argv[1:])
heavy = {"torch", "jax", "numpy", "ray", "cloudpickle", "tblib"} & sys.modules.keys()
sys.exit(f"imported {heavy}" if heavy else code)
"""


def run(*words, **env):
    return subprocess.run(
        [sys.executable, "-c", CODE, *words],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **env},
        check=False,
    )


def call(capsys, as_json=False):
    code = doctor.main(["--json"] if as_json else [])
    return code, capsys.readouterr().out


def test_text():
    told = run()
    assert (told.returncode, told.stderr) == (0, "")
    lines = told.stdout.splitlines()
    assert lines[-1] == "Everything that procession needs is there."
    titles = [line for line in lines[:-1] if line and not line.startswith(" ")]
    assert titles == list(doctor.GROUPS)
    assert "\x1b" not in told.stdout
    marks = {line[2:14].strip() for line in lines if line.startswith("  ")}
    assert marks <= {"ok", "-", "low", "falls back", "missing", ""}


def test_json():
    told = run("--json")
    assert told.returncode == 0
    data = json.loads(told.stdout)
    assert (data["ok"], data["missing"]) == (True, [])
    assert list(data["groups"]) == list(doctor.GROUPS)
    needed = {"subreaper", "parent_death_signal", "memfd_create", "eventfd", "proc"}
    for name in ("pidfd_open", "pidfd_send_signal", "waitid", *needed):
        found = data["groups"]["kernel"][name]
        assert (found["mark"], found["data"], found["needed"]) == ("ok", True, name in needed)
    assert {"close_range", "inotify", "proc_children", "oom_kill", "cgroup",
            "rank_cgroups"} <= data["groups"]["kernel"].keys()  # fmt: skip
    assert {"open_files", "processes", "pid_max", "core", "core_pattern", "memory", "shm", "tmp",
            "memory_available", "cgroup_memory"} <= data["groups"]["limits"].keys()  # fmt: skip
    assert {"control", "state"} == data["groups"]["directories"].keys()
    assert {"cores", "affinity", "quota"} <= data["groups"]["cores"].keys()
    assert data["groups"]["cores"]["affinity"]["data"] == sorted(os.sched_getaffinity(0))
    assert data["groups"]["python"]["executable"]["value"] == sys.executable
    assert {"torch", "jax", "ray", "numpy", "cloudpickle"} <= data["groups"]["python"].keys()


def test_no_two_findings_have_one_key():
    for found in doctor.examine().values():
        keys = [f.key for f in found]
        assert len(set(keys)) == len(keys)


def test_what_is_not_ok_says_what_happens_and_what_helps(monkeypatch):
    monkeypatch.setattr(probe, "try_feature", lambda name: probe.Tried(False, "no"))
    monkeypatch.setattr(probe, "space", lambda path: (1, 0))
    monkeypatch.setattr(probe, "rlimit", lambda name: (3, 9))
    monkeypatch.setattr(probe, "package", lambda name: None)
    for found in doctor.examine().values():
        for f in found:
            assert bool(f.instead and f.advice) == (f.mark not in ("ok", "-")), f


@pytest.mark.parametrize("name", ["pidfd_open", "pidfd_send_signal", "waitid"])
def test_exit_code_0_where_there_is_another_way(name, monkeypatch, capsys):
    whole = probe.try_feature
    refused = probe.Tried(False, "Operation not permitted")
    monkeypatch.setattr(probe, "try_feature", lambda n: refused if n == name else whole(n))
    code, text = call(capsys)
    assert code == 0
    assert "falls back" in text
    assert "Operation not permitted" in text


@pytest.mark.parametrize("name", ["subreaper", "parent_death_signal", "memfd_create", "eventfd"])
def test_exit_code_1_without_what_is_needed(name, monkeypatch, capsys):
    whole = probe.try_feature
    refused = probe.Tried(False, "Operation not permitted")
    monkeypatch.setattr(probe, "try_feature", lambda n: refused if n == name else whole(n))
    code, text = call(capsys)
    assert code == 1
    assert text.splitlines()[-1].startswith("procession does not work here; missing: ")
    assert "missing" in text
    assert "Operation not permitted" in text
    code, text = call(capsys, as_json=True)
    assert code == 1
    assert len(json.loads(text)["missing"]) == 1


@pytest.mark.parametrize("name", ["inotify", "close_range", "proc_children"])
def test_exit_code_0_without_what_has_a_substitute(name, monkeypatch, capsys):
    whole = probe.try_feature
    refused = probe.Tried(False, "Operation not permitted")
    monkeypatch.setattr(probe, "try_feature", lambda n: refused if n == name else whole(n))
    monkeypatch.setattr(memory_groups, "obstacle", str)  # as on a machine that has cgroups
    code, text = call(capsys)
    assert code == 0
    assert "falls back" in text


def test_a_machine_without_proc_and_sys(monkeypatch, tmp_path, capsys):
    whole = open

    def refuse(path, *args, **more):
        if str(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return whole(path, *args, **more)

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr(numa, "nodes", lambda: None)
    monkeypatch.setattr(accelerators, "find", list)
    code, text = call(capsys)
    assert code == 1  # ranks' environment and follower need /proc
    assert text.splitlines()[-1] == "procession does not work here; missing: /proc"
    assert text.count("unknown") >= 6


def test_a_group_that_fails_leaves_the_others(monkeypatch, capsys):
    def fail():
        raise RuntimeError("broken")

    monkeypatch.setitem(doctor.GROUPS, "limits", fail)
    code, text = call(capsys)
    assert code == 0
    assert "unknown: RuntimeError: broken" in text
    monkeypatch.setitem(doctor.GROUPS, "kernel", fail)
    assert call(capsys)[0] == 1


def finding(look, key):
    (found,) = (f for f in look() if f.key == key)
    return found


@pytest.mark.parametrize(
    ("limit", "mark", "text"),
    [
        ((1024, 4096), "ok", "1024, can be raised to 4096; enough for about 165 ranks"),
        ((32, 4096), "low", "32, can be raised to 4096; enough for about 0 ranks"),
        ((64, 64), "ok", "64; enough for about 5 ranks"),
        ((-1, -1), "ok", "unlimited"),
    ],
)
def test_open_files(limit, mark, text, monkeypatch):
    monkeypatch.setattr(probe, "rlimit", lambda name: limit)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    found = finding(doctor.limits, "open_files")
    assert (found.mark, found.value) == (mark, text)


def test_a_quota_below_the_cores(monkeypatch):
    monkeypatch.setattr(Cgroups, "cores", lambda self: 1.5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    found = finding(doctor.cores, "quota")
    assert (found.mark, found.value) == ("low", "1.5")
    assert "OMP_NUM_THREADS" in found.advice


@pytest.mark.parametrize(
    ("source", "mark"),
    [("/sys/fs/cgroup/memory.events", "ok"), (KILLS_OF_ALL, "falls back"), (None, "falls back")],
)
def test_the_count_of_oom_kills(source, mark, monkeypatch):
    watch = OomWatch()
    watch.source = source
    monkeypatch.setattr(doctor, "OomWatch", lambda: watch)
    assert finding(doctor.kernel, "oom_kill").mark == mark


def test_no_temporary_directory(monkeypatch):
    def refuse():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(doctor.tempfile, "gettempdir", refuse)
    found = finding(doctor.limits, "tmp")
    assert (found.mark, found.needed) == ("missing", True)


def test_accelerators(monkeypatch):
    some = [
        accelerators.Accelerators("NVIDIA", 2, ("H200", "H200"), {"CUDA_VISIBLE_DEVICES": "0,1"}),
        accelerators.Accelerators("Intel", 0, notes=("the processor's own",)),
        accelerators.Accelerators("AMD", 0, faults=("there is no /dev/kfd",)),
    ]
    monkeypatch.setattr(accelerators, "find", lambda: some)
    assert [(f.key, f.mark, f.value) for f in doctor.devices()] == [
        ("nvidia", "ok", "2; 2 x H200; CUDA_VISIBLE_DEVICES=0,1"),
        ("intel", "-", "0; the processor's own"),
        ("amd", "missing", "0; there is no /dev/kfd"),
    ]
    assert not any(f.needed for f in doctor.devices())


def test_under_slurm():
    told = json.loads(run("--json", SLURM_JOB_ID="7", SLURM_NTASKS="4").stdout)
    assert told["groups"]["environment"]["slurm"]["value"] == "SLURM_JOB_ID=7 SLURM_NTASKS=4"


def test_a_console_that_knows_ascii_only():
    told = run(PYTHONIOENCODING="ascii", SLURM_JOB_ID="\N{SNOWMAN}")
    assert told.returncode == 0
    assert "\\u2603" in told.stdout


def test_nothing_is_left(capsys):
    fds = os.listdir("/proc/self/fd")
    for _ in range(3):
        call(capsys)
    assert os.listdir("/proc/self/fd") == fds
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
