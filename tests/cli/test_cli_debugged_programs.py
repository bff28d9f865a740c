"""The debugger in programs as people have them: training, an editor, many ranks, a random walk."""

import random
import re
import signal
import subprocess

import pytest
from commandline import Terminal, Watched, command, good
from debugging import PATIENCE, PROMPT, Debugging, Editor

from seams.system import free_port
from support import require, until, write

TRAINS = """
    import os, sys
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(7)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        loss = model(torch.full((3, 4), rank + step + 1.0)).square().mean()
        if sys.argv[1:] and (rank, step) == (1, 2):
            breakpoint()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    os.write(1, f"weights {[w.tolist() for w in model.parameters()]}\\n".encode())
    dist.destroy_process_group()
    """
OFTEN = """
    import os
    rank = int(os.environ["RANK"])
    for n in range(3):
        breakpoint()
        n += 1
    print("result", rank, flush=True)
    """


@pytest.mark.timeout(200)
def test_a_training_that_was_stopped_has_the_same_weights(tmp_path):
    require("torch")
    script = write(tmp_path / "trains.py", TRAINS)
    undisturbed = sorted(set(good("-n", 2, "--prefix", "", script, timeout=100).splitlines()))
    with Terminal("run", "-n", 2, "--prefix", "", "--no-fold", script, "stops") as terminal:
        debugging = Debugging(terminal)
        shown, rank = debugging.prompt()
        assert rank == 1 and "rank 1 stopped at trains.py:" in shown
        assert debugging.type("p tuple(loss.shape), step")[0].endswith("((), 2)\n")
        debugging.type("next")
        terminal.type(b"c\n")
        assert terminal.end(60) == 0
        found = sorted({line for line in terminal.lines if line.startswith("weights")})
    assert found == undisturbed and len(found) == 1


@pytest.mark.timeout(200)
def test_64_ranks(tmp_path):
    script = write(tmp_path / "often.py", OFTEN.replace("range(3)", "range(1)"))
    with Terminal("run", "-n", 64, script) as terminal:
        debugging = Debugging(terminal)
        debugging.prompt()
        until(lambda: debugging.type("ranks")[0].count(": waits") == 64, "all to stop", PATIENCE)
        assert "[0-63] 1000\n" in debugging.type("all p n + 1000")[0]
        assert debugging.type("rank 63")[1] == 63
        assert "[5-7] 1000\n[" in debugging.type("5-7 p n + 1000")[0] + "["
        terminal.type(b"all c\n")
        assert terminal.end(60) == 0
        shown = terminal.text().decode()
    assert sorted(map(int, re.findall(r"result (\d+)", shown))) == [*range(64)]


@pytest.mark.timeout(200)
def test_an_editor_sets_a_breakpoint_in_a_rank(tmp_path):
    require("debugpy")
    script = write(
        tmp_path / "waits.py",
        """
        import os, sys, time
        rank = int(os.environ["RANK"])
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
        secret = rank + 1000
        print("secret", secret, flush=True)
        """,
    )
    first = free_port()
    with Watched("run", "-n", 3, f"--debugpy={first}", script, tmp_path / "go") as watched:
        editor = Editor(first + 2)
        editor.ask("initialize", adapterID="test", pathFormat="path")
        editor.ask("attach", answered=False, justMyCode=True)
        editor.event("initialized")
        source = {"path": str(script)}
        editor.ask("setBreakpoints", source=source, breakpoints=[{"line": 6}])
        editor.ask("configurationDone")
        (tmp_path / "go").touch()
        stopped = editor.event("stopped")
        assert stopped["reason"] == "breakpoint"
        frames = editor.ask("stackTrace", threadId=stopped["threadId"])["stackFrames"]
        assert frames[0]["line"] == 6
        said = editor.ask("evaluate", expression="secret", frameId=frames[0]["id"])
        assert said["result"] == "1002"
        watched.shows(b"secret 1000", b"secret 1001")
        assert b"secret 1002" not in watched.text()
        editor.ask("continue", threadId=stopped["threadId"])
        assert watched.end(60) == 0
        assert b"secret 1002" in watched.text()
        editor.close()


def test_debugpy_is_for_python():
    done = command("run", "--debugpy", "true")
    assert done.returncode == 2
    assert "--debugpy is for Python programs, and PROGRAM is none" in done.stderr


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(60))
def test_random_sequences(tmp_path, seed):
    """Nothing hangs, nothing is left, and the exit code is that of what ended it first."""
    choose = random.Random(seed)
    script = write(tmp_path / "often.py", OFTEN)
    for turn in range(5):
        name = f"walk{seed}x{turn}"
        with Terminal("run", "-n", 2, "--name", name, script) as terminal:
            codes, done = _walk(terminal, choose, name)
            try:
                code = terminal.end(60)
            except subprocess.TimeoutExpired:
                code = "no end"
            if code not in codes:
                pytest.fail(f"{code}, not {codes}, after {done}: {terminal.lines[-30:]}")


def _walk(terminal, choose, name):
    """Do something at random until it ends the run; gives what this exits with, and what was done.

    A rank that was killed while the group was told to go on may have been the last one.
    """
    debugging, done = Debugging(terminal), []
    while True:
        if _next_prompt(terminal, debugging, done) is None:
            return {0}, done
        done.append(what := choose.choice(STEPS))
        if what in ENDING:
            until(terminal.edits, "the prompt, not what it showed when the size changed")
            terminal.type(ENDING[what][0])
            return ENDING[what][1], done
        if what == "stop":
            command("stop", name)
            return {143}, done
        if what == "kill":
            command("stop", name, "--kill")
            return {137}, done
        if what == "signal":
            terminal.signal(signal.SIGTERM)
            return {143}, done
        if what == "size":
            terminal.resize(choose.randint(5, 60), choose.randint(20, 200))
            what = "next"
        terminal.type(b"\x03" if what == "interrupt" else what.encode() + b"\n")


STEPS = ("c", "c", "all c", "all c", "next", "all next", "p rank", "ranks", "rank 0", "rank 1",
         "interrupt", "size", "detach", "q\nn", "quit", "eof", "dies", "stop", "kill",
         "signal")  # fmt: skip
ENDING = {
    "quit": (b"q\ny\n", {143}),
    "eof": (b"\x04y\n", {143}),
    "dies": (b"!import os; os.kill(os.getpid(), 9)\n", {137}),
}


def _next_prompt(terminal, debugging, done):
    """Wait for a prompt, or for the end: None."""

    def look():
        if terminal.process.poll() is not None:
            return "over"
        new = bytes(terminal.screen[debugging.read :]).replace(b"\r", b"")
        return re.search(PROMPT, new) and "prompt"

    try:
        seen = until(look, "a prompt or the end", PATIENCE)
    except pytest.fail.Exception:
        pytest.fail(f"neither a prompt nor the end after {done}: {terminal.lines[-30:]}")
    if seen == "over":
        return None
    return debugging.prompt()
