"""The files of procession on the way of a death: `python benchmarks/walk.py [--names]`.

They have functions that are entered, in any process, when one of four ranks is killed, and are not
when all end well: who looks for a defect there has to read them. Once the ranks are on one machine,
and once two launchers with two each meet by c10d. What runs at an import does not count.

--names: with the functions. A copy of the package is run, which notes what is entered.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import procession
from measure import PROCESSION, PYTHON, until

RANKS = 4
SETTLING = 2.0  # seconds until launchers have come to rest
RANK = """
import os, sys, time
open(f"{sys.argv[1]}/{os.environ['RANK']}.{os.getpid()}", "x").close()
while not os.path.exists(sys.argv[1] + "/go"): time.sleep(0.02)
"""
# For the package's first lines: functions (a flag of code) that are entered while a byte is set.
NOTE = """
def _walk():
    import mmap, os, sys, threading
    root, seen, get, out = os.path.dirname(__file__) + os.sep, set(), os.getpid, os.O_WRONLY
    with open(root + "../on", "rb") as f:
        on = mmap.mmap(f.fileno(), 1, prot=mmap.PROT_READ)
    def note(frame, event, _, open=os.open, write=os.write, close=os.close):
        code = frame.f_code
        if event == "call" and on[0] and code.co_flags & 1 and code.co_filename.startswith(root):
            line = f"{code.co_filename[len(root):]} {code.co_name}\\n"
            if code.co_name[0] != "<" and (get(), line) not in seen:
                seen.add((get(), line))
                fd = open(root + "../entered", os.O_WRONLY | os.O_APPEND)
                write(fd, line.encode())
                close(fd)
    sys.setprofile(note)
    threading.setprofile(note)
_walk()
"""


def entered(launchers: list[list[str]], place: Path, *, kill: bool) -> set[str]:
    """Run launchers; give files and functions that were entered at the end. kill: the last rank."""
    there, top = place / "ranks", place / "procession"
    there.mkdir()
    shutil.copytree(Path(procession.__file__).parent, top)
    with open(top / "__init__.py", "a", encoding="utf-8") as init:
        init.write(NOTE)
    quiet = top / "agent" / "quiet.py"  # where the agent switches profilers off
    quiet.write_text(quiet.read_text("utf-8").replace("sys.setprofile(None)", "pass"), "utf-8")
    (place / "on").write_bytes(b"\0")
    (place / "entered").touch()
    env = {**os.environ, "PYTHONPATH": str(place), "PROCESSION_JOB_KEY": os.urandom(16).hex()}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    running: list[subprocess.Popen[bytes]] = []
    for words in launchers:
        command = [*PROCESSION, *words, "--no-python", PYTHON, "-c", RANK, str(there)]
        running.append(subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL))
        time.sleep(1)  # the first one is to be the host
    until(lambda: len(list(there.iterdir())) == RANKS, "ranks")
    time.sleep(SETTLING)
    (last,) = there.glob(f"{RANKS - 1}.*")
    (place / "on").write_bytes(b"\1")
    if kill:
        os.kill(int(last.suffix[1:]), signal.SIGKILL)
    else:
        (there / "go").touch()
    for launcher in running:
        if bool(launcher.wait(60)) != kill:
            raise RuntimeError(f"{launcher.args} ended with {launcher.returncode}")
    return set((place / "entered").read_text("utf-8").splitlines())


def main() -> None:
    """Print the files of both ways."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    meet = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    nodes = [[*meet, "-n", "2", "--local-addr", f"127.0.0.{n}"] for n in (1, 2)]
    for what, launchers in (("one machine", [["-n", str(RANKS)]]), ("two, by c10d", nodes)):
        with tempfile.TemporaryDirectory() as scratch:
            ends = [Path(scratch, "well"), Path(scratch, "killed")]
            for end in ends:
                end.mkdir()
            well, killed = (entered(launchers, e, kill=e is ends[1]) for e in ends)
        files: dict[str, list[str]] = {}
        for line in sorted(killed - well):
            file, _, function = line.partition(" ")
            files.setdefault(file, []).append(function)
        print(f"{what}: {len(files)} files, {len(killed - well)} functions")
        for file, functions in files.items():
            print(f"  {file}", *functions if "--names" in sys.argv else ())


if __name__ == "__main__":
    main()
