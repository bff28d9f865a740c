"""A log directory on a disk that has no room."""

import os
import subprocess
import sys

import pytest

from support import PROCESSION, write

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
    done = subprocess.run(
        [*ALONE, "sh", "-c", ON_SMALL_DISK, "sh", size, str(disk), *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
        **options,
    )
    if done.returncode in (77, 126, 127) or done.stderr.startswith("unshare:"):
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    return done


def procession(*words):
    return [*PROCESSION, "run", *words]


def test_rank_gets_its_error_and_the_report_names_the_disk(tmp_path):
    script = write(
        tmp_path / "fill.py",
        """
        import os, signal
        if os.environ["RANK"] == "0":
            while True:
                signal.pause()
        for i in range(100_000):
            print("." * 1000)
        """,
    )
    disk = tmp_path / "disk"
    done = on_small_disk("1m", disk, *procession("-n", 2, "--log-dir", disk, "-r", 3, script))
    assert done.returncode == 1, done.stderr
    report = done.stderr[done.stderr.index("fill.py failed: ") :]
    assert "rank 1 of 2" in report.splitlines()[0]
    assert "raised OSError: [Errno 28] No space left on device" in report.splitlines()[0]
    assert "no space is left on the disk of " in report
    assert str(disk) in report
    assert "procession/" not in report.replace(str(tmp_path), "")  # no traceback of ours
    assert "was ended by SIGTERM" in report


def test_program_that_is_not_python(tmp_path):
    disk = tmp_path / "disk"
    done = on_small_disk(
        "1m",
        disk,
        *procession("-n", 2, "--log-dir", disk, "-r", 1),
        *("--no-python", "sh", "-c", "yes | head -c 5000000; exit $?"),
    )
    # The pipeline ends as `head` does, which could not write: the failure is the rank's.
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "events.jsonl" not in done.stderr


def test_rank_that_handles_its_full_disk_succeeds_with_a_note(tmp_path):
    script = write(
        tmp_path / "careful.py",
        """
        import os
        try:
            while True:
                os.write(1, b"." * 4096)
        except OSError as e:
            os.write(2, os.strerror(e.errno).encode() + b"\\n")
        """,
    )
    disk = tmp_path / "disk"
    done = on_small_disk("400k", disk, *procession("-n", 2, "--log-dir", disk, "-r", 1, script))
    assert done.returncode == 74, done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("[")]
    assert sorted(said) == [f"[{r}] No space left on device" for r in (0, 1)]


LOUD = "i=0; while [ $i -lt 1000 ]; do echo line $i of a rank; i=$((i + 1)); done; true"


def report_after(disk, *words):
    """Run words on a small disk, then report and what is left; gives what all of it said."""
    script = '"$@"; echo code $?; ls -R "$0"; procession report last; echo code $?'
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    env = {**os.environ, "PATH": path}
    return on_small_disk("16k", disk, "sh", "-c", script, disk, *words, env=env)


def test_what_a_full_disk_loses_is_said_once_and_the_report_tells_the_truth(tmp_path):
    disk = tmp_path / "disk"
    words = procession("--log-dir", disk, "-r", 3, "--no-python", "sh", "-c", LOUD)
    done = report_after(disk, *words)
    assert "code 74" in done.stdout, (done.stdout, done.stderr)
    said = [
        line for line in done.stderr.splitlines() if "o space" in line and "write error" not in line
    ]
    assert len([line for line in said if line.startswith("procession: ")]) == 1, done.stderr
    assert ".part" not in done.stdout
    assert "or could not write how it ended: the disk of its directory is full" in done.stderr
    assert done.stdout.endswith("code 1\n")


def test_a_tee_shows_what_a_full_disk_cannot_keep(tmp_path):
    disk = tmp_path / "disk"
    fill = 'head -c 1m /dev/zero > "$0/ballast" 2>/dev/null; exec "$@"'
    words = procession("-n", 2, "--log-dir", disk, "-t", 3, "--no-python", "sh", "-c", LOUD)
    done = on_small_disk("64k", disk, "sh", "-c", fill, disk, *words)
    assert done.returncode == 74, done.stderr
    for rank in (0, 1):
        shown = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}] line ")]
        assert len(shown) == 1000
    assert "log files of ranks are cut off: no space is left on the disk" in done.stderr


def test_disk_that_is_full_from_the_start(tmp_path):
    disk = tmp_path / "disk"
    done = on_small_disk(
        "64k",
        disk,
        *("sh", "-c", 'head -c 1m /dev/zero > "$1/ballast" 2>/dev/null; shift; exec "$@"', "sh"),
        disk,
        *procession("-n", 2, "--log-dir", disk / "runs", "-r", 3, "true"),
    )
    # A directory needs no block on this file system, a file's first byte does.
    assert done.returncode == 74, done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(disk) == []  # the mount went with its namespace


def test_no_inode_is_left(tmp_path):
    disk = tmp_path / "disk"
    done = on_small_disk(
        "1m,nr_inodes=5", disk, *procession("-n", 4, "--log-dir", disk, "-r", 3, "true")
    )
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_scratch_directory_on_a_full_disk(tmp_path):
    disk = tmp_path / "disk"
    done = on_small_disk(
        "1m,nr_inodes=1",
        disk,
        *procession("-n", 2, "true"),
        env={**os.environ, "TMPDIR": str(disk)},
    )
    assert (done.returncode, done.stderr) == (0, "")
