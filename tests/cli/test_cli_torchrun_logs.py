"""torchrun's options for output: filters, templates, no files at all, and layouts of others."""

import os

import pytest
from commandline import good, only, run

from seams.cli import read_request
from support import write

SPEAK = """
import os, sys
r = os.environ["RANK"]
for word in ("apple", "pear", "a,b", "orange"):
    print(word, r)
    print(word, r, file=sys.stderr)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    write(tmp_path / "speak.py", SPEAK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def copies(here, attempt=0):
    run_dir = only(here / "logs") / f"attempt_{attempt}"
    return {
        path.name: sorted(path.read_text().splitlines()) for path in run_dir.glob("filtered_*.log")
    }


def test_lines_are_duplicated(here):
    good("-n", 2, "--log-dir", "logs", "-t", 3, "--duplicate-stdout-filters", "apple,a,,b",
         "--duplicate_stderr_filters=pear", "speak.py")  # fmt: skip
    assert copies(here) == {
        "filtered_stdout.log": ["[0] a,b 0", "[0] apple 0", "[1] a,b 1", "[1] apple 1"],
        "filtered_stderr.log": ["[0] pear 0", "[1] pear 1"],
    }


def test_lines_of_each_attempt(here):
    source = "import os; k = os.environ['TORCHELASTIC_RESTART_COUNT']; print('try', k); 1 / int(k)"
    write(here / "again.py", source)
    done = run("--log-dir", "logs", "-t", 3, "--max-restarts", 1,
               "--duplicate-stdout-filters", "try", "again.py")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "try 0\ntry 1\n"
    assert copies(here, 0) == {"filtered_stdout.log": ["try 0"]}
    assert copies(here, 1) == {"filtered_stdout.log": ["try 1"]}


@pytest.mark.parametrize(
    ("template", "role", "prefix"),
    [
        ("[${role_name}-${rank}/${local_rank}]: ", "actor", "[actor-{rank}/{local_rank}]: "),
        ("$rank {x} $other ", "r", "{rank} {{x}} $other "),
        ("${role_name}|", "{rank}", "{{rank}}|"),
        ("${hostname}:${rank}: ", "r", "{host}:{rank}: "),
    ],
)
def test_the_template_of_torchrun(here, monkeypatch, template, role, prefix):
    def asked(*words):
        return read_request([*words, "--role", role, "speak.py"])

    monkeypatch.setenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", template)
    assert asked().spec.logs.prefix == prefix
    other = asked("--prefix", "[{rank}] ")
    assert other.spec.logs.prefix == "[{rank}] "
    assert "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE is left out" in other.notes[0]
    monkeypatch.setenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "no ")
    assert asked("--log-line-prefix-template", template).spec.logs.prefix == prefix
    monkeypatch.setenv("PET_LOG_LINE_PREFIX_TEMPLATE", template)
    assert asked().spec.logs.prefix == prefix


def test_no_files_at_all(here):
    out = good("--log-dir", os.devnull, "-r", 3, "-t", 3, "speak.py")
    assert "apple 0\n" in out
    assert os.listdir(here) == ["speak.py"]


# -- entry points

PLUGIN = """
import os
from procession.elastic import DefaultLogsSpecs

class Mine(DefaultLogsSpecs):
    def reify(self, envs):
        for rank, env in envs.items():
            attempt = env["TORCHELASTIC_RESTART_COUNT"]
            env["PLANNED"] = f"{rank} of {env['WORLD_SIZE']}, attempt {attempt}"
        return super().reify(envs)

class Broken(DefaultLogsSpecs):
    def __init__(self, **given):
        raise ValueError("no such bucket")
"""
TORCHS = """
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs

class Theirs(DefaultLogsSpecs):
    pass
"""
ENTRY_POINTS = """
[torchrun.logs_specs]
mine = logs_plugin:Mine
broken = logs_plugin:Broken
gone = no_such_module:X
theirs = torchs_plugin:Theirs
"""


@pytest.fixture
def plugin(here, monkeypatch):
    """A package that has entry points of this group."""
    site = here / "site"
    write(site / "logs_plugin.py", PLUGIN)
    write(site / "torchs_plugin.py", TORCHS)
    write(site / "plugin-1.0.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: plugin\n")
    write(site / "plugin-1.0.dist-info" / "entry_points.txt", ENTRY_POINTS)
    monkeypatch.setenv("PYTHONPATH", str(site))
    return here


def test_logs_are_laid_out_by_an_entry_point(plugin):
    source = """
        import os
        print(os.environ["PLANNED"])
        print(os.environ["TORCHELASTIC_ERROR_FILE"])
        1 / int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    """
    write(plugin / "see.py", source)
    done = run("-n", 2, "--max-restarts", 1, "--logs-specs", "mine", "--log-dir", "logs", "-t", 1,
               "--rdzv-id", "job", "see.py")  # fmt: skip
    assert done.returncode == 0, done.stderr
    run_dir = only(plugin / "logs")
    assert run_dir.name.startswith("job_")
    assert sorted(path.name for path in run_dir.iterdir()) == ["attempt_0", "attempt_1"]
    for rank in (0, 1):
        directory = run_dir / "attempt_1" / str(rank)
        written = (directory / "stdout.log").read_text()
        planned, error_file = written.splitlines()
        assert planned == f"{rank} of 2, attempt 0"  # once
        # Since Python 3.12, a directory that `tempfile` has made has an absolute path.
        assert plugin / error_file == directory / "error.json"
        for line in written.splitlines():
            assert f"[{rank}] {line}\n" in done.stdout


@pytest.mark.torch
@pytest.mark.parametrize("name", ["theirs", "default"])
def test_logs_are_laid_out_by_a_class_of_torch(plugin, name):
    done = run("-n", 2, "--logs-specs", name, "--log-dir", "logs", "-r", "0:3", "speak.py")
    assert done.returncode == 0, done.stderr
    (log,) = (plugin / "logs").glob("*/attempt_0/0/stdout.log")
    assert "apple 0\n" in log.read_text()
    assert "apple 1" in done.stdout
    assert "apple 0" not in done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("other", "there is no entry point 'other' in torchrun.logs_specs; there are broken,"),
        ("broken", "--logs-specs broken: ValueError: no such bucket"),
        ("gone", "--logs-specs gone: ModuleNotFoundError"),
    ],
)
def test_wrong_entry_points(plugin, name, said):
    done = run("--logs-specs", name, "speak.py")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert said in done.stderr


def test_prefixes_are_the_same_with_an_entry_point(here):
    template = "{node}:{rank}/{local_rank} {host} {name} {width}|"
    words = ["-n", 2, "--log-dir", "logs", "-t", 1, "--prefix", template, "speak.py"]
    plain, laid_out = good(*words), good("--logs-specs", "default", *words)
    assert sorted(laid_out.splitlines()) == sorted(plain.splitlines())
    assert f"0:1/1 {os.uname().nodename} speak.py 1|apple 1\n" in laid_out
