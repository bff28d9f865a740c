"""Output that nobody takes because its disk is full: said once, and never a success."""

import subprocess
import sys

import pytest
from commandline import PROCESSION

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
