"""Seeing and steering a run from another process: ps, logs, report, stop, stacks."""

import json
import os
import signal
import subprocess

import pytest
from commandline import Watched, command, only

from support import PROCESSION, alive, until, write

TICKS = """
    import os, sys, time
    print("ready", os.environ["RANK"])
    print("problem of", os.environ["RANK"], file=sys.stderr)
    number = 0
    while True:
        time.sleep(0.02)
        number += 1
        print(f"tick {number}\\n", end="")  # in one call: it is ended at any moment
"""


@pytest.fixture
def ticks(tmp_path):
    return write(tmp_path / "ticks.py", TICKS)


@pytest.fixture
def waiting(tmp_path):
    beat = "import procession; procession.beat(step=7, total=100)"
    return write(tmp_path / "wait.py", f'{beat}; import time; print("ready"); time.sleep(3600)')


def rows(*words):
    done = command("ps", "--json", *words)
    assert (done.returncode, done.stderr) == (0, "")
    mine = os.environ["XDG_STATE_HOME"]  # others may test on this machine, too
    found = json.loads(done.stdout)
    ours = [
        r
        for r in found
        if r["state"] not in ("UNSEEN", "LOST", "PART", "KEPT", "") or mine in r["run_dir"]
    ]
    return found, ours


def test_ps(waiting):
    with Watched("run", "-n", 2, waiting, "--api-key", "hunter2") as launcher:
        launcher.shows(b"[0] ready", b"[1] ready")
        _, (row,) = rows()
        assert (row["name"], row["state"]) == ("wait.py", "RUNNING")
        assert (row["alive"], row["nproc"], row["launcher"]) == (2, 2, launcher.pid)
        assert row["memory"] > 1 << 20
        assert row["step"] == "7/100"
        assert [r["rank"] for r in row["ranks"]] == [0, 1]
        done = command("ps")
        (line,) = [x for x in done.stdout.splitlines() if row["id"] in x]
        assert "2/2" in line
        assert "hunter2" not in done.stdout + command("ps", "--json").stdout
        launcher.signal(signal.SIGINT)
        assert launcher.end() == 130
    assert not rows("--all")[1]  # it had no directory


@pytest.mark.parametrize("way", ["name", "directory"])
def test_stop(way, waiting, tmp_path):
    logs = tmp_path / "logs"
    with Watched("run", "-n", 2, "--log-dir", logs, waiting) as launcher:
        launcher.shows(b"[0] ready", b"[1] ready")
        (row,) = rows()[1]
        word = "wait.py" if way == "name" else only(logs)
        pids = [r["pid"] for r in row["ranks"]]
        done = command("stop", word)
        assert (done.returncode, done.stderr) == (0, "")
        assert "was stopped, exit code 143" in done.stdout
        assert not any(map(alive, pids))
        assert launcher.end() == 143
        assert b"was stopped from another terminal (SIGTERM)" in launcher.err


def test_stop_with_another_signal_and_stop_by_force(tmp_path):
    stubborn = write(
        tmp_path / "stubborn.py",
        """
        import os, signal, time
        signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"heard it\\n"))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready")
        while True:
            time.sleep(3600)
        """,
    )
    with Watched("run", "-n", 2, stubborn) as launcher:
        launcher.shows(b"[0] ready", b"[1] ready")
        with Watched("stop", "last", "--signal", "usr1", "--grace", "60") as stop:
            launcher.shows(b"heard it")
            done = command("stop", "last", "--kill")
            assert done.returncode == 0, done.stderr
            assert stop.end() == 0
        assert launcher.end() == 128 + signal.SIGUSR1


def test_logs_from_files(ticks, tmp_path):
    logs = tmp_path / "logs"
    with Watched("run", "-n", 2, "--log-dir", logs, "-t", 3, ticks) as launcher:
        launcher.shows(b"[0] tick 3\n", b"[1] tick 3\n")
        done = command("logs", "last")
        assert {"[0] ready 0", "[1] ready 1"} <= set(done.stdout.splitlines())
        assert {"[0] problem of 0", "[1] problem of 1"} <= set(done.stderr.splitlines())
        done = command("logs", "last", "--rank", 1, "--stderr")
        assert (done.stdout, done.stderr) == ("", "problem of 1\n")
        with Watched("logs", "last", "-f", "--rank", 0, "--stdout", "-n", 1) as follower:
            until(lambda: follower.out.count(b"\n") > 5, "more lines")
            assert command("stop", "last").returncode == 0
            assert follower.end() == 0
        assert b"ready" not in follower.out
        launcher.end()
    (number,) = [int(x) for x in follower.out.split()[-1:]]
    text = (only(logs) / "attempt_0" / "0" / "stdout.log").read_text()
    assert text.endswith(f"tick {number}\n")  # not one is missing at the end
    done = command("logs", only(logs), "--rank", 0, "--stdout", "-n", 2)
    assert done.stdout == f"tick {number - 1}\ntick {number}\n"


def test_logs_of_a_rank_that_started_again_alone_and_of_the_others(tmp_path):
    words = f"run -n 3 --restart-scope rank --max-restarts 1 --log-dir {tmp_path} -t 3 --no-python"
    life = 'echo $TORCHELASTIC_RESTART_COUNT; test "$RANK$TORCHELASTIC_RESTART_COUNT" != 10'
    assert command(*words.split(), "sh", "-c", life).returncode == 0
    assert command("logs", only(tmp_path)).stdout == "[0] 0\n[1] 1\n[2] 0\n"


def test_logs_over_the_socket(ticks):
    with Watched("run", "-n", 2, ticks) as launcher:
        launcher.shows(b"[0] tick 3\n", b"[1] tick 3\n")
        done = command("logs", "last", "--stdout")
        assert "keeps no files" in done.stderr
        assert {"[0] ready 0", "[1] ready 1"} <= set(done.stdout.splitlines())
        assert "there are no files of rank 1" in command("logs", "last", "--rank", 1).stderr
        with Watched("logs", "last", "-f", "-n", 0) as follower:
            until(lambda: follower.out.count(b"\n") > 5, "more lines")
            assert command("stop", "last").returncode == 0
            assert follower.end() == 0
        assert all(b"] tick" in x for x in bytes(follower.out).splitlines())
        launcher.end()


@pytest.mark.parametrize(("code", "state"), [(0, "SUCCEEDED"), (3, "FAILED")])
def test_report_of_a_run_that_has_ended(code, state, tmp_path):
    script = write(tmp_path / "ends.py", f"import sys; sys.exit({code})")
    run = command("run", "-n", 2, "--log-dir", tmp_path / "logs", script)
    assert run.returncode == code
    path = only(tmp_path / "logs")
    result = json.loads((path / "result.json").read_text())
    assert (result["state"], result["exit_code"], len(result["ranks"])) == (state, code, 2)
    assert result["run_dir"] == str(path)
    done = command("report", "last")
    assert done.returncode == 0
    assert done.stdout == (path / "report.txt").read_text()
    assert ("ends.py finished: 2 ranks" if not code else "exited with code 3") in done.stdout
    assert command("attach", path).returncode == code
    (row,) = rows("--all")[1]
    assert (row["state"], row["exit_code"]) == (state, code)
    assert "has ended before" in command("stop", "last").stdout


def test_stacks_of_all_ranks(waiting):
    with Watched("run", "-n", 2, waiting) as launcher:
        launcher.shows(b"[0] ready", b"[1] ready")
        done = command("stacks", "last")
        assert (done.returncode, done.stderr) == (0, "")
        assert "2 ranks [0-1]" in done.stdout.splitlines()[0]
        assert "wait.py" in done.stdout
        found = json.loads(command("stacks", "last", "--json").stdout)
        assert [each["rank"] for each in found] == [0, 1]
        launcher.signal(signal.SIGINT)
        launcher.end()


@pytest.mark.parametrize("with_files", ["older", "newer"])
def test_last_and_ps_know_a_run_that_is_suspended(waiting, tmp_path, with_files):
    """An older run of this directory must not be stopped in place of a suspended one."""
    logs = "--log-dir", "logs"
    first, second = (logs, ()) if with_files == "older" else ((), logs)
    with Watched("run", *first, waiting, cwd=tmp_path, start_new_session=True) as older:
        older.shows(b"ready")
        with Watched("run", *second, waiting, cwd=tmp_path) as launcher:
            launcher.shows(b"ready")
            launcher.signal(signal.SIGSTOP)
            found = [row["launcher"] for row in rows()[1]]
            assert sorted(found) == sorted([older.pid, launcher.pid])
            done = command("stop", "last", cwd=tmp_path)
            assert (done.returncode, done.stdout) == (1, "")
            assert (
                f"is suspended (by Ctrl-Z, or SIGSTOP); type fg there, or kill -CONT {launcher.pid}"
                in done.stderr
            )
            assert alive(older.pid)
            launcher.signal(signal.SIGTERM)
            launcher.signal(signal.SIGCONT)
            assert launcher.end() == 143
        assert alive(older.pid)


@pytest.mark.parametrize("words", [("logs", "-f"), ("attach",)])
@pytest.mark.parametrize("logs", [("--log-dir", "logs", "-t", 3), ()])
def test_what_shows_a_run_goes_with_its_reader(tmp_path, words, logs):
    script = write(
        tmp_path / "speak.py",
        "import time\nwhile True:\n    print('line', flush=True)\n    time.sleep(0.05)\n",
    )
    with Watched("run", "-n", 2, *logs, script, cwd=tmp_path) as launcher:
        launcher.shows(b"[0] line", b"[1] line")
        line = [*PROCESSION, *words, "last"]
        with subprocess.Popen(line, stdout=subprocess.PIPE, cwd=tmp_path) as showing:
            assert showing.stdout.readline().endswith(b"line\n")
            showing.stdout.close()
            assert showing.wait(100) == 0
        with open("/dev/full", "wb") as full:
            lost = subprocess.run([*PROCESSION, "logs", "last"], stdout=full, cwd=tmp_path)
        assert lost.returncode == 74
        assert alive(launcher.pid)
        launcher.signal(signal.SIGINT)
        launcher.end()


def test_an_empty_word_is_no_run(waiting, tmp_path):
    with Watched("run", waiting, cwd=tmp_path) as launcher:
        launcher.shows(b"ready")
        done = command("stop", "", cwd=tmp_path)
        assert (done.returncode, "name a run; procession ps lists them" in done.stderr) == (2, True)
        launcher.signal(signal.SIGINT)
        launcher.end()


def test_stop_last_means_a_run_of_this_directory(waiting, tmp_path):
    """In a session without a terminal, as in a job of CI, another directory's run is not meant."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Watched("run", waiting, start_new_session=True) as launcher:
        launcher.shows(b"ready")
        with Watched("run", waiting, cwd=elsewhere) as other:
            other.shows(b"ready")
            assert command("stop", "last").returncode == 0
            assert launcher.end() == 143
            assert command("stop", "last").returncode == 2
            assert alive(other.pid)
            other.signal(signal.SIGTERM)
            assert other.end() == 143


@pytest.mark.parametrize("way", ["signal", "stop"])
def test_the_report_of_a_stopped_run_says_who_stopped_it(way, waiting, tmp_path):
    logs = tmp_path / "logs"
    with Watched("run", "--log-dir", logs, waiting) as launcher:
        launcher.shows(b"ready")
        if way == "signal":
            launcher.signal(signal.SIGTERM)
            said = f"stopped by SIGTERM to its launcher (pid {launcher.pid})"
        else:
            with Watched("stop", "last") as stop:
                said = (
                    f"stopped by SIGTERM from another terminal (pid {stop.pid}, user {os.getuid()})"
                )
                assert stop.end() == 0
        assert launcher.end() == 143
    assert said in command("report", only(logs)).stdout
