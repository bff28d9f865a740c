"""`--max-restarts` with its rules, on the command line."""

import signal

import pytest
from commandline import PATIENCE, Watched, run

from support import write

COUNTING = """
    import os, pathlib, sys
    rank, life = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
    pathlib.Path(sys.argv[1], f"{rank}.{life}").touch()
    sys.exit(int(sys.argv[2]))
    """


def lives(tmp_path):
    return sorted(p.name for p in tmp_path.glob("[0-9].[0-9]"))


def test_each_restart_is_said_when_it_is_decided(tmp_path):
    script = write(tmp_path / "count.py", COUNTING)
    done = run("--max-restarts", 2, "--restart-backoff", "0.06:0.07", script, tmp_path, 3)
    assert done.returncode == 3
    assert lives(tmp_path) == ["0.0", "0.1", "0.2"]
    said = [line for line in done.stderr.splitlines() if line.startswith("procession: attempt")]
    assert [line.partition(":")[2].partition(" failed")[0] for line in said] == [
        *(" attempt 0", " attempt 1"),
    ]
    assert "; attempt 1 starts in " in said[0]
    assert "note: not restarted: 2 of 2 restarts are used" in done.stderr


def test_a_signal_while_it_waits_to_start_again_is_told_beside_the_failure(tmp_path):
    script = write(tmp_path / "count.py", COUNTING)
    line = "--max-restarts", 1, "--restart-backoff", "900", script, tmp_path, 3
    with Watched("run", *line) as launcher:
        launcher.shows(b"; attempt 1 starts in ", patience=PATIENCE)
        launcher.signal(signal.SIGINT)
        assert launcher.end(PATIENCE) == 3
    assert b"procession: count.py had failed before SIGINT [P412]" in launcher.err


@pytest.mark.parametrize(
    ("options", "code", "count"),
    [
        (["--no-restart-codes", "5,6"], 6, 1),
        (["--no-restart-codes", "5,6"], 78, 4),
        ([], 78, 1),
        (["--min-uptime", "60"], 3, 2),
        (["--restart-window", "60"], 3, 4),
        (["--restart-scope", "rank"], 3, 4),
    ],
    ids=str,
)
def test_the_rules(tmp_path, options, code, count):
    script = write(tmp_path / "count.py", COUNTING)
    done = run("--max-restarts", 3, *options, script, tmp_path, code)
    assert done.returncode == code
    assert len(lives(tmp_path)) == count
