"""How much of the package four walks enter: `python benchmarks/walks.py [CHECKOUT ...]`.

A walk is what the launcher does between an event and what follows from it, in all its threads:

- line: one line that a rank writes, until it is on the console (a log file is kept, too);
- death: SIGKILL of rank 3 of 8, until `wait()` has raised;
- interrupt: Ctrl-C in the command with 8 ranks, until it gives its exit code;
- start: `start` of a function with 8 ranks in a fresh process, until it returns.

Counted are the files and the functions (and methods) of procession that are entered at least once,
by `sys.setprofile`; module bodies, class bodies, lambdas and comprehensions are not. CHECKOUT: the
root of a source tree, several to compare them; by default this one. With -v, the names are listed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

RANKS = 8
PATIENCE = 60.0
SETTLE = 0.3  # seconds for threads to finish what they do after the walk is over
HERE = Path(__file__).resolve().parent.parent
Names = list[tuple[str, str]]


class Recorder:
    """Keeps which functions of the package are entered while `on` is True, in every thread."""

    def __init__(self) -> None:
        import procession

        self.on = False
        self.seen: set[tuple[str, str, int]] = set()
        self._root = os.path.dirname(procession.__file__) + os.sep
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if self.on and event == "call":
            code = frame.f_code
            if code.co_filename.startswith(self._root):
                self.seen.add((code.co_filename, code.co_name, code.co_firstlineno))

    def names(self) -> Names:
        """Give file and function of each, without bodies of modules and classes, and lambdas."""
        self.on = False
        found: Names = []
        for path, name, first in sorted(self.seen):
            source = Path(path).read_text(encoding="utf-8").splitlines()
            line = source[first - 1].lstrip()
            if not name.startswith("<") and not line.startswith("class "):
                found.append((os.path.relpath(path, self._root), name))
        return found


def line(recorder: Recorder) -> Names:
    from procession import Logs, Std, start

    read, write = os.pipe()
    os.dup2(write, 1)
    with tempfile.TemporaryDirectory() as directory:
        go = os.path.join(directory, "go")
        os.mkfifo(go)
        command = ["sh", "-c", f"read -r x < {go}; echo the line; exec sleep 1000"]
        with start(command, logs=Logs(os.path.join(directory, "runs"), tee=Std.ALL)):
            time.sleep(SETTLE)  # what the start leaves to be done is no part of this
            recorder.on = True
            Path(go).write_text("go\n")
            text = b""
            while b"the line\n" not in text:
                text += os.read(read, 4096)
            time.sleep(SETTLE)
            return recorder.names()


def death(recorder: Recorder) -> Names:
    from procession import GroupFailed, start

    group = start(["sleep", "1000"], nproc=RANKS)
    time.sleep(SETTLE)
    recorder.on = True
    os.kill(group.pids()[3], signal.SIGKILL)
    try:
        group.wait(PATIENCE)
    except GroupFailed:
        return recorder.names()
    raise RuntimeError("the group did not fail")


def interrupt(recorder: Recorder) -> Names:
    from procession.cli import main

    with tempfile.TemporaryDirectory() as directory:

        def press() -> None:
            while len(os.listdir(directory)) < RANKS:
                time.sleep(0.01)
            time.sleep(SETTLE)
            recorder.on = True
            os.kill(os.getpid(), signal.SIGINT)

        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (of a process that ends soon)
        threading.Thread(target=press).start()
        program = f"touch {directory}/$RANK; exec sleep 1000"
        code = main(["run", "-n", str(RANKS), "--no-python", "sh", "-c", program])
        found = recorder.names()
        if code != 128 + signal.SIGINT:
            raise RuntimeError(f"the command gave {code}")
        return found


def work() -> None:
    """Be the function of a rank."""
    time.sleep(1000)


def start(recorder: Recorder) -> Names:
    import procession

    recorder.on = True
    group = procession.start(work, nproc=RANKS)
    found = recorder.names()
    group.kill()
    return found


WALKS: dict[str, Callable[[Recorder], Names]] = {
    "line": line,
    "death": death,
    "interrupt": interrupt,
    "start": start,
}


def walk(name: str, checkout: Path) -> Names:
    """Walk once, in a process of its own, with the package of a checkout."""
    env = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    with tempfile.TemporaryFile("w+") as result:
        command = [sys.executable, __file__, "--walk", name, "--to", str(result.fileno())]
        fds = (result.fileno(),)
        subprocess.run(command, env=env, pass_fds=fds, check=True, timeout=2 * PATIENCE)
        result.seek(0)
        return [(file, function) for file, function in json.load(result)]


def main() -> None:
    """Print the table, or make one walk for it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", nargs="*", type=Path, default=[HERE])
    parser.add_argument("-v", "--verbose", action="store_true", help="also list the functions")
    parser.add_argument("--walk", choices=WALKS, help=argparse.SUPPRESS)
    parser.add_argument("--to", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.walk:
        found = WALKS[given.walk](Recorder())
        with os.fdopen(given.to, "w") as f:
            json.dump(found, f)
        return
    print(f"{'walk':<10}{'files':>6}{'functions':>10}  checkout")
    for name in WALKS:
        for checkout in given.checkout:
            found = walk(name, checkout.resolve())
            files = {file for file, _ in found}
            print(f"{name:<10}{len(files):>6}{len(found):>10}  {checkout}", flush=True)
            for file, function in found if given.verbose else ():
                print(f"  {file} {function}")


if __name__ == "__main__":
    main()
