"""The short check: real launches, each told as a line of JSON. Run as `-m chaos.matrix.check`.

A launch works, refuses (one line says why), falls back, or is broken.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import procession
import procession.forkserver
from chaos import processes
from procession import Placement

PROGRAMS = Path(__file__).with_name("programs")
LIMIT = 20  # seconds for a launch, which takes less than one
SOON = 5.0  # seconds after which nothing may be left of a killed launcher
COMMAND = (sys.executable, "-m", "procession")
CODED = re.compile(r"\[P\d{3}\]$")


class Refused(Exception):
    """A launch was refused in one line, which is the text."""


class FellBack(Exception):
    """A launch did without something; the text says what it did instead."""


def multiplied(number: int) -> int:
    """What ranks run."""
    return number * int(os.environ["RANK"])


def failing() -> None:
    """What ranks run of which one fails."""
    if os.environ["RANK"] == "1":
        raise ValueError("no such batch")
    while True:
        time.sleep(0.1)


def own_limits() -> tuple[str, int]:
    """Give the cgroups of a rank, and its limit of data."""
    groups = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    return groups, resource.getrlimit(resource.RLIMIT_DATA)[0]


def function(method: str) -> Callable[[], None]:
    """Make a check of a function by a start method."""

    def launch() -> None:
        values = procession.run(multiplied, args=(7,), nproc=2, start_method=method)
        assert values == [0, 7], values

    return launch


def program(method: str) -> Callable[[], None]:
    """Make a check of a command that is a program, by a start method."""

    def launch() -> None:
        test = 'test "$WORLD_SIZE" = 2'
        ended = procession.run(["sh", "-c", test], nproc=2, start_method=method)
        assert ended == [None, None], ended

    return launch


def contained(how: str) -> Callable[[], None]:
    """Make a check of a way to contain ranks."""

    def launch() -> None:
        values = procession.run(multiplied, args=(7,), nproc=2, contain=how)
        assert values == [0, 7], values

    return launch


def script() -> None:
    """`procession run` with a script: each line is there."""
    done = _command("run", "-n", "2", str(PROGRAMS / "hello.py"))
    lines = sorted(done.stdout.splitlines())
    assert lines == ["[0] hello from 0", "[1] hello from 1"], done.stdout + done.stderr


def cause() -> None:
    """A rank fails: it is named, and the other one is stopped."""
    try:
        procession.run(failing, nproc=2)
    except procession.StartFailed:
        raise
    except procession.GroupFailed as e:
        failed = e
    else:
        raise AssertionError("no failure")
    assert failed.cause.rank == 1, failed
    assert "no such batch" in str(failed), failed
    assert [end.rank for end in failed.ended] == [0], failed


def cause_of_script() -> None:
    """The same for `procession run`, which tells it by its report and exit code."""
    done = _command("run", "-n", "2", str(PROGRAMS / "hello.py"), "1", code=1)
    if "no such batch" not in done.stderr:
        _judge(done.stderr)
    assert "rank 1" in done.stderr, done.stderr


def killed() -> None:
    """A launcher is killed: nothing is left of its ranks and their daemons."""
    procession.forkserver.close()  # an idle one of ours would count
    launcher = subprocess.Popen(
        [sys.executable, str(PROGRAMS / "launcher.py")], stderr=subprocess.PIPE, text=True
    )
    try:
        while len(_sleeping()) < 4:
            if launcher.poll() is not None:
                assert launcher.stderr is not None
                _judge(launcher.stderr.read())
            time.sleep(0.02)
    finally:
        launcher.kill()
        launcher.communicate()
    _wait_for_none()


def steered() -> None:
    """A run is seen and stopped from elsewhere."""
    group = procession.start(["sleep", "1003"], nproc=2, name="seen", control=True)
    try:
        found = [line for line in _command("ps").stdout.splitlines() if "seen" in line]
        if found and "UNSEEN" in found[0]:
            raise Refused(
                "it has no socket: `procession ps` shows its processes, but not its state"
            )
        assert found, "it is not in the list"
    finally:
        group.kill()
        group.wait()


def detached() -> None:
    """A run goes on without its terminal, and is ended from another one."""
    procession.forkserver.close()
    run = _command("run", "--detach", "-n", "2", "sleep", "1004").stdout.strip()
    try:
        assert "sleep 1004" in " ".join(map(processes.command_line, _sleeping()))
        _command("stop", run)
        _wait_for_none()
    finally:
        for pid in _left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def memory() -> None:
    """Each rank has a cgroup of its own for its limit of memory, or a limit of data."""
    with warnings.catch_warnings(record=True):
        limited = Placement(memory_limit="1G")
        told = procession.run(own_limits, nproc=2, placement=limited)
    groups = [f"procession_{os.getpid()}" in each for each, _ in told]
    if not any(groups) and {limit for _, limit in told} == {1 << 30}:
        raise FellBack("a limit of data for each process")
    assert all(groups), told


# The launches that must work, and those that `procession doctor` may say are not to be had.
MAIN: dict[str, Callable[[], None]] = {
    "function, forkserver": function("forkserver"),
    "function, spawn": function("spawn"),
    "function, fork": function("fork"),
    "program, forkserver": program("forkserver"),
    "program, spawn": program("spawn"),
    "script": script,
    "cause": cause,
    "cause of a script": cause_of_script,
    "killed launcher": killed,
}
BESIDE: dict[str, Callable[[], None]] = {
    "contain pidns": contained("pidns"),
    "contain cgroup": contained("cgroup"),
    "memory cgroup": memory,
    "seen from elsewhere": steered,
    "detached": detached,
}


def _command(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    if done.returncode != code or not (done.stdout or done.stderr):
        _judge(done.stderr)
        raise AssertionError(f"exit code {done.returncode}")
    return done


def _judge(text: str) -> None:
    """Raise Refused if the last line of a text is a refusal, and all that there is to read."""
    lines = text.strip().splitlines()
    last = lines[-1] if lines else ""
    traceback = bool(lines) and lines[0].startswith("Traceback")  # the library's user sees one
    if len(lines) == 1 and CODED.search(last):
        raise Refused(last)
    named = last.partition(": ")  # the exception's name, and its text
    if traceback and named[0].startswith("procession."):
        raise Refused(named[2])
    raise AssertionError(text[-1000:] or "no word")


def _wait_for_none() -> None:
    """Wait until nothing is left of a launch."""
    deadline = time.monotonic() + SOON
    while left := _left():
        assert time.monotonic() < deadline, f"left: {processes.named(left)}"
        time.sleep(0.02)


def _left() -> list[int]:
    """Give what is left of launches here: all that has the mark, but for those that run this."""
    if os.getpid() == 1:  # orphans are ours, and stay until they are waited for
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
    mark = os.environ[processes.MARK]
    return [pid for pid in processes.marked(mark) if _below(pid) and processes.alive(pid)]


def _below(pid: int) -> bool:
    line = processes.command_line(pid)
    return "sleep 100" in line or "launcher.py" in line or "forkserver/entry.py" in line


def _sleeping() -> list[int]:
    return [pid for pid in _left() if "sleep 100" in processes.command_line(pid)]


def _alarm(*_: object) -> None:
    raise TimeoutError(f"no end after {LIMIT} s")


def tried(launch: Callable[[], None]) -> tuple[str, str]:
    """Make a check; gives what came of it, and what was said."""
    signal.alarm(LIMIT)
    try:
        launch()
    except Refused as e:
        return "refuses", str(e)
    except FellBack as e:
        return "falls back", str(e)
    except AssertionError as e:
        return "broken", str(e)[-1000:]
    except (procession.StartFailed, procession.SpecError) as e:
        return ("broken" if "\n" in str(e) else "refuses"), str(e)[-1000:]
    except Exception as e:
        return "broken", f"{type(e).__name__}: {e}"[-1000:]
    finally:
        signal.alarm(0)
    return "works", ""


def main() -> None:
    """Make the checks that the words name, all if there are none."""
    signal.signal(signal.SIGALRM, _alarm)
    for name, launch in {**MAIN, **BESIDE}.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        began = time.monotonic()
        came, said = tried(launch)
        told = {"check": name, "came": came, "said": said}
        print(json.dumps({**told, "seconds": round(time.monotonic() - began, 2)}), flush=True)
    procession.forkserver.close()


if __name__ == "__main__":
    main()
