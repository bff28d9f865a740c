"""Disks that have no room, and output that nothing takes: said once, and never a success."""

import os
import subprocess
import sys

import pytest
from commandline import run

from support import PROCESSION, run_program, write

ALONE = ("unshare", "-m", "--propagation", "private")
# Makes a small disk in a mount namespace of its own, and runs there what follows.
ON_SMALL_DISK = """
mount -t tmpfs -o size=$1 small "$2" || exit 77
shift 2
exec "$@"
"""


def on_small_disk(size, disk, *words, **options):
    """Run words where `disk` is the mount point of a disk of this size."""
    disk.mkdir()
    done = run_program(*ALONE, "sh", "-c", ON_SMALL_DISK, "sh", size, disk, *words, **options)
    if done.returncode in (77, 126, 127) or done.stderr.startswith("unshare:"):
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    return done


def procession(*words):
    return [*PROCESSION, "run", *words]


LOST = 74
FULL = "no space is left on the disk"


def said_of_space(done):
    """Give what the command itself said of the disk."""
    lines = done.stderr.splitlines()
    return [line for line in lines if line.startswith("procession: ") and "o space" in line]


def test_a_rank_that_fails_by_its_full_disk(tmp_path):
    """The report is whole, and says where the other rank was."""
    script = write(
        tmp_path / "fill.py",
        """
        import os, signal, time
        if os.environ["RANK"] == "0":
            while True:
                signal.pause()
        try:
            while True:
                os.write(1, b"." * 4096)
        except OSError as e:
            time.sleep(0.5)
            raise
        """,
    )
    disk = tmp_path / "disk"
    done = on_small_disk("400k", disk, *procession("-n", 2, "--log-dir", disk, "-r", 3, script))
    assert done.returncode == 1, done.stderr
    report = done.stderr[done.stderr.index("fill.py failed: ") :]
    assert "rank 1 of 2" in report.splitlines()[0]
    assert "raised OSError: [Errno 28] No space left on device" in report.splitlines()[0]
    assert f"{FULL} of " in report
    assert str(disk) in report
    assert "procession/" not in report.replace(str(tmp_path), "")  # no traceback of ours
    assert "was ended by SIGTERM" in report
    assert "  rank 0 waits for a signal\n" in report


@pytest.mark.parametrize("how", ["-r", "-t"])
def test_a_rank_that_handles_its_full_disk(tmp_path, how):
    shell = "yes | head -c 5000000; exit 0"
    disk = tmp_path / "disk"
    words = procession("-n", 2, "--log-dir", disk, how, 1, "sh", "-c", shell)
    done = on_small_disk("1m", disk, *words)
    assert done.returncode == LOST, done.stderr
    assert "Traceback" not in done.stderr
    assert len(said_of_space(done)) == 1, done.stderr


def test_the_report_tells_the_truth(tmp_path):
    """The directory of the run has no room for it; `report` finds it all the same."""
    disk = tmp_path / "disk"
    loud = "i=0; while [ $i -lt 1000 ]; do echo line $i of a rank; i=$((i + 1)); done; true"
    script = '"$@"; echo code $?; ls -R "$0"; procession report last; echo code $?'
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    words = procession("--log-dir", disk, "-r", 3, "--no-python", "sh", "-c", loud)
    env = {**os.environ, "PATH": path}
    done = on_small_disk("16k", disk, "sh", "-c", script, disk, *words, env=env)
    assert "code 74" in done.stdout, (done.stdout, done.stderr)
    assert len(said_of_space(done)) == 1, done.stderr
    assert ".part" not in done.stdout
    assert "or could not write how it ended: the disk of its directory is full" in done.stderr
    assert done.stdout.endswith("code 1\n")


# -- what the console does not take


@pytest.mark.parametrize(
    "words",
    [
        ["run", "-n", "2", "echo", "x"],
        ["run", "--json", "true"],
        ["ps", "--json"],
        ["run", "--help"],
    ],
)
def test_a_console_on_a_full_disk(words):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PROCESSION, *words], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
            text=True, timeout=40, check=False,
        )  # fmt: skip
    assert done.returncode == LOST
    (line,) = done.stderr.splitlines()
    if "echo" in words:
        assert line.startswith("procession: output of ranks is lost: the standard output did not")
    else:
        assert line.startswith("procession: printed output is lost (No space left on devi")


def test_a_reader_that_has_gone_is_no_loss():
    line = f"{sys.executable} -m procession doctor | true; exit ${{PIPESTATUS[0]}}"
    done = run_program("/bin/bash", "-c", line)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("code", "expected"), [(0, LOST), (5, 5)])
def test_a_log_directory_that_was_removed(tmp_path, code, expected):
    logs = tmp_path / "logs"
    script = f"rm -rf {logs}; echo lost; exit {code}"
    done = run("--log-dir", logs, "-r", 3, "sh", "-c", script)
    assert done.returncode == expected
    (line,) = [x for x in done.stderr.splitlines() if x.startswith("procession: the run's")]
    assert f"{logs}/" in line
    assert "is gone, with what was written" in line
