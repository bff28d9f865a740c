"""Output that nobody takes because its disk is full: said once, and never a success."""

import subprocess
import sys

import pytest
from commandline import PROCESSION

import procession
from support import write

LOST = 74


def to_full(*words):
    """Run the command with its standard output on a device that is always full."""
    with open("/dev/full", "wb") as full:
        return subprocess.run(
            [*PROCESSION, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=40,
            check=False,
        )


def test_output_of_ranks(tmp_path):
    script = write(tmp_path / "speak.py", "print('x' * 100); print('y')")
    done = to_full("run", "-n", 2, script)
    assert done.returncode == LOST
    (line,) = done.stderr.splitlines()
    assert line == (
        "procession: output of ranks is lost: the standard output did not take all "
        "(No space left on device) [P407]"
    )


def test_a_rank_that_failed_says_more(tmp_path):
    script = write(tmp_path / "bad.py", "print('x'); raise SystemExit(3)")
    done = to_full("run", "-n", 2, script)
    assert done.returncode == 3
    assert "output of ranks is lost" in done.stderr


@pytest.mark.parametrize(
    "words", [["run", "--json", "true"], ["ps", "--json"], ["doctor"], ["--version"], ["--help"],
              ["run", "--dry-run", "true"], ["completion", "bash"], ["run", "--help"]],
)  # fmt: skip
def test_what_the_command_itself_prints(words):
    done = to_full(*words)
    assert done.returncode == LOST
    (line,) = done.stderr.splitlines()
    assert line == "procession: what was to be printed is lost (No space left on device) [P307]"


def test_a_reader_that_has_gone_is_no_loss():
    done = subprocess.run(
        f"{sys.executable} -m procession doctor | true; exit ${{PIPESTATUS[0]}}",
        shell=True, executable="/bin/bash", capture_output=True, text=True, timeout=40, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def in_shell(*words, **options):
    """Run the command to its end, its output captured."""
    return subprocess.run(
        [*PROCESSION, *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
        **options,
    )


@pytest.mark.parametrize(("code", "expected"), [(0, LOST), (5, 5)])
def test_a_log_directory_that_was_removed(tmp_path, code, expected):
    logs = tmp_path / "logs"
    script = f"rm -rf {logs}; echo lost; exit {code}"
    done = in_shell("run", "--log-dir", logs, "-r", 3, "sh", "-c", script)
    assert done.returncode == expected
    (line,) = [x for x in done.stderr.splitlines() if x.startswith("procession: the run's")]
    assert f"{logs}/" in line
    assert "is gone, with what was written" in line


def test_a_library_says_in_its_log_what_is_lost(tmp_path, caplog):
    program = ["sh", "-c", f"rm -rf {tmp_path}/logs"]
    logs = procession.Logs(tmp_path / "logs", redirect=procession.Std.ALL)
    procession.run(program, logs=logs)
    (said,) = [r for r in caplog.records if r.name == "procession"]
    assert "is gone, with what was written" in said.getMessage()


def test_a_variable_without_a_name_is_left_out(tmp_path):
    script = write(tmp_path / "speak.py", "print('started')")
    done = subprocess.run(
        ["env", "=C:=x", *PROCESSION, "run", "-n", "2", script],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert (done.returncode, done.stdout.count("started")) == (0, 2), done.stderr


def test_a_rank_that_does_not_start_in_time_was_not_terminated(tmp_path, monkeypatch):
    write(tmp_path / "slow.py", "import time\ntime.sleep(30)\n")
    script = write(tmp_path / "work.py", "")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    words = ("run", "--start-timeout", "0.5", "--preload", "slow", script)
    assert in_shell(*words).returncode == 1
