"""What a person reads when a group is stopped, or fails: where ranks were, once, and no more."""

import json
import re
import signal

import pytest
from commandline import Watched, command, only, run
from emulated import Screen

from chaos.processes import children, command_line, state
from support import until, write

HANGS = """
    import os, signal, time
    def all_reduce():
        time.sleep(1000)
    print("ready", flush=True)
    if os.environ["RANK"] != "1":
        all_reduce()
    time.sleep(1000)
    """
WHERE = ["  rank 1 is at hang.py:7", "  3 ranks [0,2-3] are in all_reduce (hang.py:3)"]
RAISES = """
    import os, sys, time
    rank = int(os.environ["RANK"])
    print("ready", flush=True)
    if rank == 1:
        while len(os.listdir(os.path.dirname(sys.argv[1]))) < 3:
            time.sleep(0.01)
        raise ValueError("the first one")
    try:
        open(sys.argv[1] + os.environ["RANK"], "w").close()
        time.sleep(1000)
    finally:
        raise RuntimeError("Connection closed by peer")
    """


@pytest.fixture
def hang(tmp_path):
    return write(tmp_path / "hang.py", HANGS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_where_ranks_were(hang, tmp_path, number):
    with Watched("run", "-n", 4, "--log-dir", tmp_path / "runs", "-t", 3, hang) as watched:
        watched.shows(*(b"[%d] ready" % r for r in range(4)))
        watched.signal(number)
        assert watched.end() == 128 + number
    said = watched.err.decode().splitlines()
    end = next(n for n, line in enumerate(said) if "hang.py was stopped by" in line)
    assert said[end].startswith(f"procession: hang.py was stopped by {number.name} after ")
    path = only(tmp_path / "runs")
    stacks = f"  all stacks: {path}/attempt_0/stacks.txt"
    where = ["when it was stopped, the ranks were:", *WHERE, stacks]
    assert said[end + 1 : end + 1 + len(where)] == where
    assert b"Traceback" not in watched.err
    held = said[end + 1 + len(where) :]
    if number == signal.SIGINT:  # the others end without a word
        (line,) = held
        assert line.startswith("after that, ranks 0-3 wrote 2")
        assert line.endswith(" (KeyboardInterrupt): --all-output shows them, their logs keep them")
    else:
        assert held == []
    assert [line.strip() for line in WHERE] == json.loads((path / "result.json").read_text())[
        "stacks"
    ]
    report = (path / "report.txt").read_text().splitlines()
    assert report[2:5] == ["  when it was stopped, the ranks were:", *(f"  {w}" for w in WHERE)]
    *_, last = map(json.loads, (path / "events.jsonl").read_text().splitlines())
    assert (last["kind"], last["stacks"]) == ("stopped", [line.strip() for line in WHERE])


def test_procession_stop_says_where_ranks_were(hang):
    with Watched("run", "-n", 4, "--name", "hang.py", hang) as watched:
        watched.shows(*(b"[%d] ready" % r for r in range(4)))
        done = command("stop", "last")
        assert watched.end() == 143
    assert done.stdout.splitlines()[1:] == ["when it was stopped, the ranks were:", *WHERE]


def test_ranks_that_are_no_python(tmp_path):
    with Watched("run", "-n", 2, "sleep", "1000") as watched:
        until(
            lambda: [
                (command_line(pid), state(pid))
                for agent in children(watched.pid)
                for pid in children(agent)
            ]
            == [("sleep 1000", "S")] * 2,
            "two ranks that sleep",
        )
        watched.signal(signal.SIGTERM)
        assert watched.end() == 143
    assert "  2 ranks [0-1] sleep (" in watched.err.decode().splitlines()[-1]


@pytest.mark.parametrize("all_output", [False, True])
def test_a_failure_is_told_once(tmp_path, all_output):
    script = write(tmp_path / "raises.py", RAISES)
    (tmp_path / "there").mkdir()
    more = ["--all-output"] if all_output else []
    done = run("-n", 4, "--stop-signal", "SIGINT", *more, script, tmp_path / "there" / "rank")
    assert done.returncode == 1
    assert done.stderr.count("ValueError: the first one\n") == 1 + all_output
    assert sorted(done.stdout.splitlines()) == [f"[{r}] ready" for r in range(4)]
    held = "\nafter that, ranks 0,2-3 wrote "
    assert (held in done.stderr) is not all_output
    assert ("[0] RuntimeError: Connection closed by peer" in done.stderr) is all_output
    if not all_output:
        assert "(KeyboardInterrupt, RuntimeError: Connection closed by peer)" in done.stderr


def test_the_traceback_of_an_attempt_that_another_one_follows(tmp_path):
    """No report has it."""
    done = run("-n", 2, "--max-restarts", 1, write(tmp_path / "again.py", AGAIN))
    said = done.stderr.splitlines()
    failed = next(n for n, line in enumerate(said) if "attempt 0 failed: rank 1 of 2" in line)
    assert done.stderr.count("ValueError: of attempt 0\n") == 1
    assert said.index("[1] ValueError: of attempt 0") < failed
    assert done.stderr.count("ValueError: of attempt 1\n") == 1
    assert "[1] ValueError: of attempt 1" not in said


AGAIN = """
    import os, time
    if os.environ["RANK"] == "1":
        raise ValueError("of attempt " + os.environ["TORCHELASTIC_RESTART_COUNT"])
    time.sleep(1000)
    """


@pytest.mark.parametrize("words", [[], ["all"]])
def test_a_crash_is_told_once_and_without_our_frames(tmp_path, words):
    script = write(tmp_path / "crash.py", CRASHES)
    done = run("-n", 2, script, *words)
    assert done.returncode == 128 + signal.SIGSEGV
    shown, _, report = done.stderr.partition("crash.py failed")
    assert ", line 4 in crash" in report
    first = re.search(r"rank (\d)", report)[1]
    assert f"[{first}]" not in shown
    assert "procession/" not in done.stderr and "runpy" not in done.stderr


CRASHES = """
    import ctypes, os, sys, time
    def crash():
        if os.environ["RANK"] == "0" or sys.argv[1:]:
            ctypes.string_at(0)
        time.sleep(1000)
    crash()
    """
FOLDS = """
    import os, sys, time, warnings
    rank, go = int(os.environ["RANK"]), sys.argv[1]
    print(f"I am {rank}")
    warnings.simplefilter("always")
    while not os.path.exists(go):
        # All of them at the same time, in one round at least.
        time.sleep(1 - time.time() % 1)
        warnings.warn("old")
        print("loss", 1 + rank / 10, flush=True)
        print(f"{10 * (rank + 1)}%|##", end="\\r", file=sys.stderr, flush=True)
    print("100%|##########", file=sys.stderr)
    """


@pytest.mark.parametrize("how", [[], ["--fold=numbers"], ["--no-fold"]])
def test_folding_on_a_terminal(tmp_path, how):
    script, go = write(tmp_path / "folds.py", FOLDS), tmp_path / "go"
    folded = "--no-fold" not in how
    with Screen("run", "-n", 4, *how, script, go, columns=200) as terminal:
        if folded:
            numbers = [r"^\[0-3\] loss 1.0 … 1.3$"] if how else []
            warning = [rf"^\[0-3\] {script}:8: UserWarning: old$", r"^\[0-3\]   warnings.warn"]
            terminal.until_shown(r"^\[0-3\] 10%\|##  \(\[0\]\)$", *warning, *numbers, patience=60)
            bars = [line for line in terminal.display() if "%|##" in line]
            assert len(bars) == 1
        else:
            terminal.until_shown(*(rf"^\[{r}\] {r + 1}0%" for r in range(4)))
        go.touch()
        assert terminal.end() == 0
        shown = terminal.everything()
    if folded:
        ends = [line.split("]")[0][1:] for line in shown if line.endswith("100%|##########")]
        parts = [part.split("-") for part in ",".join(ends).split(",")]
        ranks = [rank for part in parts for rank in range(int(part[0]), int(part[-1]) + 1)]
        assert sorted(ranks) == [0, 1, 2, 3]
    else:
        assert not [line for line in shown if line.startswith("[0-")]
    if "--fold=numbers" not in how:
        ranks = sorted(line for line in shown if "I am" in line)
        assert ranks == [f"[{r}] I am {r}" for r in range(4)]


MOVES = """
    import os, sys, time
    def wait(): time.sleep(1000)
    def step(): sum(range(100_000_000))
    for _ in range(int(sys.argv[1])): step()
    wait()
    """
WORKS = """
    import subprocess, sys, threading, time
    until = time.monotonic() + 14  # three looks, always at the same place
    def work():
        while time.monotonic() < until: sum(range(1000))
    if sys.argv[1] == "in short waits":
        while time.monotonic() < until: time.sleep(0.05)
    elif sys.argv[1] == "now and then":
        while time.monotonic() < until:
            time.sleep(0.5)
            x = sum(range(500_000))
    elif sys.argv[1] == "in a thread":
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    else:
        code = "import time\\nend = time.monotonic() + 14\\nwhile time.monotonic() < end: pass"
        subprocess.run([sys.executable, "-c", code])
    """


def test_a_group_in_which_nothing_moves_has_hung(tmp_path):
    done = run("-n", 2, "--hang-timeout", 1, write(tmp_path / "still.py", MOVES), 0)
    assert done.returncode == 124
    assert "rank 0 of 2 (pid " in done.stderr and "hung: nothing has moved for 5" in done.stderr
    assert "  2 ranks [0-1] are in wait (still.py:2)" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("how", ["in short waits", "now and then", "in a thread", "in a process"])
def test_a_group_that_works_has_not_hung(tmp_path, how):
    script = write(tmp_path / "works.py", WORKS)
    done = run("-n", 2, "--hang-timeout", 1, script, how)
    assert (done.returncode, done.stderr) == (0, "")
