"""Python's debugger in ranks: on the terminal of the command, from another one, after failures."""

import contextlib
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from commandline import PROCESSION, Terminal, Watched, command, only, run
from debugging import Debugging

from seams.control import Prompt, RunEnded
from support import START_PATIENCE, until, write

STOPS = """
    import os
    rank = int(os.environ["RANK"])
    shape = (4, 8 if rank else 7)
    def step(n):
        breakpoint()
        return n + rank
    print("before", flush=True)
    print("result", step(40), flush=True)
    """
RUNS = """
    import os, sys, time
    n = 0
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
        n += 1
    print("done", flush=True)
    """


@pytest.fixture
def stops(tmp_path):
    return write(tmp_path / "stops.py", STOPS)


@pytest.mark.parametrize("nproc", [1, 2, 8])
def test_a_breakpoint_on_the_terminal(stops, nproc):
    with Terminal("run", "-n", nproc, stops) as terminal:
        debugging = Debugging(terminal)
        shown, first = debugging.prompt()
        assert f"rank {first} stopped at stops.py:" in shown and "(breakpoint)" in shown
        assert debugging.type("p rank * 1000") == (f"p rank * 1000\n{first * 1000}\n", first)
        assert "(4, 7 if" not in debugging.type("p sha\t")[0]
        seen = until(lambda: _all_stopped(debugging, nproc), "all to stop", 60)
        assert seen == nproc
        if nproc > 1:
            other = (first + 1) % nproc
            assert debugging.type(f"rank {other}")[1] == other
            said, _ = debugging.type("all p shape")
            assert (
                "[0] (4, 7)\n" in said
                and f"[{'1' if nproc == 2 else f'1-{nproc - 1}'}] (4, 8)" in said
            )
        terminal.type(b"all c\n")
        assert terminal.end() == 0
        lines = terminal.lines
    results = sorted(int(line.split()[-1]) for line in lines if "result" in line)
    assert results == [40 + rank for rank in range(nproc)]


def _all_stopped(debugging, nproc):
    said, _ = debugging.type("ranks")
    return said.count(": waits") == nproc and nproc


def test_from_another_terminal(tmp_path):
    go = tmp_path / "go"
    with Watched(
        "run", "-n", 2, "--name", "mine", write(tmp_path / "runs.py", RUNS), go
    ) as watched:
        until(lambda: "mine" in command("ps").stdout, "the run", START_PATIENCE)
        with Terminal("debug", "mine", "--rank", 1) as terminal:
            debugging = Debugging(terminal)
            shown, rank = debugging.prompt()
            assert rank == 1 and "rank 1 stopped at runs.py:" in shown and "(halted)" in shown
            assert re.search(r"\n\d+\n", debugging.type("p n")[0])
            debugging.type("next")
            terminal.type(b"detach\n")
            assert terminal.end() == 0
        go.touch()
        assert watched.end() == 0
        assert watched.out.count(b"done") == 2


def test_a_rank_in_native_code_stops_when_it_comes_back(tmp_path):
    script = write(
        tmp_path / "native.py",
        """
        import ctypes, os, sys, threading, time
        libc, lock = ctypes.CDLL(None), ctypes.create_string_buffer(64)
        def release():
            while not os.path.exists(sys.argv[1]):
                time.sleep(0.01)
            libc.pthread_mutex_unlock(lock)
        libc.pthread_mutex_lock(lock)
        threading.Thread(target=release).start()
        print("waits", flush=True)
        libc.pthread_mutex_lock(lock)  # which no signal interrupts
        print("done", flush=True)
        """,
    )
    go = tmp_path / "go"
    with Watched("run", "-n", 1, "--name", "native", script, go) as watched:
        watched.shows(b"waits")
        with Terminal("debug", "native", "--rank", 0) as terminal:
            terminal.shows(b"rank 0 stops at its next line of Python; now", b"native.py:10")
            go.touch()
            assert "rank 0 stopped at native.py:" in Debugging(terminal).prompt()[0]
            terminal.type(b"c\n")
            assert terminal.end() == 0
        assert watched.end() == 0
        assert watched.out == b"waits\ndone\n"


def test_without_a_terminal(stops):
    with Watched("run", "-n", 1, "--prefix", "[{rank}] ", "--name", "alone", stops) as watched:
        watched.shows(b"rank 0 stopped at stops.py:", b"procession debug alone_")
        done = command("debug", "alone", input="p rank + 1000\nc\n")
        assert done.returncode == 0
        assert "1000\n" in done.stdout
        assert watched.end() == 0
        assert b"[0] result 40" in watched.out


@pytest.mark.parametrize("words", [["--no-debug"], []])
def test_where_nobody_can_debug(stops, words):
    env = {**os.environ, **({} if words else {"PROCESSION_CONTROL": "0"})}
    done = run("-n", 2, *words, stops, env=env)
    assert done.returncode == 1
    assert "RuntimeError: this process cannot be debugged: " in done.stderr


@pytest.mark.parametrize("kind", ["ValueError", "BaseException"])
def test_after_a_failure(tmp_path, kind):
    script = write(
        tmp_path / "fails.py",
        f"""
        import os, time
        def load(n):
            batch = [n] * 3
            if os.environ["RANK"] == "1":
                raise {kind}("bad batch")
            time.sleep(1000)
        load(14)
        """,
    )
    with Terminal("run", "-n", 3, "--debug", "--log-dir", tmp_path / "runs", script) as terminal:
        debugging = Debugging(terminal)
        shown, rank = debugging.prompt()
        assert rank == 1 and f"(post-mortem: {kind}: bad batch)" in shown
        assert "[14, 14, 14]" in debugging.type("p batch")[0]
        assert "failed" not in " ".join(terminal.lines)
        terminal.type(b"q\n")
        assert terminal.end() == 1
        assert "fails.py failed: rank 1 of 3" in terminal.text().decode()
    assert (only(tmp_path / "runs") / "report.txt").is_file()


def test_a_rank_that_has_not_begun(tmp_path):
    """What it is asked before it can hear is asked again."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    write(
        tmp_path / "slow.py",
        f"""
        import os, time
        open({str(begun)!r}, "w").close()
        while not os.path.exists({str(go)!r}):
            time.sleep(0.01)
        """,
    )
    script = write(tmp_path / "runs.py", RUNS)
    words = ("run", "-n", 1, "--name", "begins", "--preload", "slow", script, tmp_path / "end")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with Watched(*words, env=env) as watched:
        until(begun.exists, "imports", START_PATIENCE)
        with Terminal("debug", "begins", "--rank", 0) as terminal:
            terminal.shows(b"rank 0 stops at its next line of Python; now")
            go.touch()
            assert "rank 0 stopped at runs.py:" in Debugging(terminal).prompt()[0]
            (tmp_path / "end").touch()
            terminal.type(b"c\n")
            assert terminal.end() == 0
        assert watched.end() == 0


def test_interact(stops):
    with Terminal("run", "-n", 1, stops) as terminal:
        debugging = Debugging(terminal)
        debugging.prompt()
        terminal.type(b"interact\n")
        terminal.shows(b"[0] >>> ")
        terminal.type(b"print(n * 1000)\n")
        terminal.shows(b"\r\n40000\r\n[0] >>> ")
        terminal.type(b"\x04")
        assert debugging.prompt()[1] == 0
        terminal.type(b"c\n")
        assert terminal.end() == 0


def test_a_group_of_the_library(tmp_path):
    """Without the command, who waits is said, too."""
    script = write(
        tmp_path / "main.py",
        """
        import procession

        def stops():
            breakpoint()
            return 5

        if __name__ == "__main__":
            print(procession.run(stops, nproc=1, control=True), flush=True)
        """,
    )
    with Watched(script, program=[sys.executable]) as watched:
        watched.shows(b"rank 0 stopped at main.py:", b"[P429]")
        run = re.search(rb"procession debug (\S+)", watched.text())[1].decode()
        assert command("debug", run, input="c\n").returncode == 0
        assert watched.end() == 0
        assert watched.out == b"[5]\n"


@pytest.mark.parametrize("how", ["q", "all q", "killed", "rank", "interrupt"])
def test_ends_at_the_prompt(stops, how):
    """Nothing hangs, and nothing is left; the terminal is as it was."""
    with Terminal("run", "-n", 2, "--name", "ends", stops) as terminal:
        debugging = Debugging(terminal)
        debugging.prompt()
        until(lambda: _all_stopped(debugging, 2), "all to stop", 60)
        if how.endswith("q"):
            terminal.type(f"{how}\ny\n".encode())
        elif how == "killed":
            command("stop", "ends", "--kill")
        elif how == "rank":
            terminal.type(b"!import os; os.kill(os.getpid(), 9)\n")
        else:
            debugging.type("\x03")
            terminal.type(b"all c\n")
        with contextlib.suppress(subprocess.TimeoutExpired):
            terminal.end(40)
        assert terminal.process.returncode == {
            "q": 143, "all q": 143, "killed": 137, "rank": 137, "interrupt": 0
        }[how]  # fmt: skip


def test_a_prompt_that_is_to_end_waits_for_no_line():
    """The signal may come just before it waits."""
    said = [{"event": "debug", "rank": 0, "said": {"ask": "(Pdb) "}}]
    talks = SimpleNamespace(closed=False, events=lambda _: [said.pop()] if said else [])
    prompt = Prompt(talks, stays=True)
    prompt.over = True
    with pytest.raises(RunEnded):
        prompt.run()


def test_a_run_that_cannot_be_debugged():
    done = command("debug", "no-such-run")
    assert done.returncode == 2
    assert subprocess.run([*PROCESSION, "debug"], capture_output=True).returncode == 2
