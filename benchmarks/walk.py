"""The files of procession on the way of a death: `python benchmarks/walk.py [--names]`.

They have functions that are entered, in any process, when one of four ranks is killed, and are not
when all end well: who looks for a defect there has to read them. Once the ranks are on one machine,
and once two launchers with two each meet by c10d. What runs at an import does not count.

--names: with the functions.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import procession
from measure import PROCESSION, PYTHON, until
from procession.system.ports import free_port

RANKS = 4
SETTLING = 2.0  # seconds until launchers have come to rest, and then for all to have beaten
RANK = """
import os, sys, time
open(f"{sys.argv[1]}/{os.environ['RANK']}.{os.getpid()}", "x").close()
while not os.path.exists(sys.argv[1] + "/go"): time.sleep(0.02)
"""
# The sitecustomize of all processes: notes functions (a flag of code) that are entered while a byte
# of a file is set. The agent would switch it off.
NOTE = """
import mmap, os, sys, threading
with open(PLACE + "/on", "rb") as f:
    on = mmap.mmap(f.fileno(), 1, prot=mmap.PROT_READ)
def note(frame, event, _, seen=set(), on=on, os=os, how=os.O_WRONLY | os.O_APPEND | os.O_CREAT):
    code = frame.f_code
    if event == "call" and on[0] and code.co_flags & 1 and code.co_filename.startswith(ROOT):
        line = f"{code.co_filename[len(ROOT) + 1:]} {code.co_name}\\n"
        if code.co_name[0] != "<" and (os.getpid(), line) not in seen:
            seen.add((os.getpid(), line))
            fd = os.open(PLACE + "/entered", how)
            os.write(fd, line.encode())
            os.close(fd)
threading.setprofile(note)
sys.setprofile(note)
sys.setprofile = lambda call, call_it=sys.setprofile: call and call_it(call)
"""


def entered(launchers: list[list[str]], *, kill: bool) -> set[str]:
    """Give files and functions that are entered at the end. kill: the last rank."""
    with tempfile.TemporaryDirectory() as scratch:
        place, there = Path(scratch), Path(scratch, "ranks")
        there.mkdir()
        (place / "on").write_bytes(b"\0")
        where = f"PLACE, ROOT = {scratch!r}, {str(Path(procession.__file__).parent)!r}"
        (place / "sitecustomize.py").write_text(where + NOTE, encoding="utf-8")
        env = {**os.environ, "PYTHONPATH": scratch, "PROCESSION_JOB_KEY": os.urandom(16).hex()}
        running: list[subprocess.Popen[bytes]] = []
        for words in launchers:
            command = [*PROCESSION, *words, "--no-python", PYTHON, "-c", RANK, str(there)]
            running.append(subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL))
            time.sleep(1)  # the first one is to be the host
        until(lambda: len(list(there.iterdir())) == RANKS, "ranks")
        time.sleep(SETTLING)
        with open(place / "on", "r+b") as on:  # a truncated one would kill all who have it mapped
            on.write(b"\1")
        time.sleep(SETTLING)
        if kill:
            (last,) = there.glob(f"{RANKS - 1}.*")
            os.kill(int(last.suffix[1:]), signal.SIGKILL)
        else:
            (there / "go").touch()
        if any(bool(each.wait(60)) != kill for each in running):
            raise RuntimeError(f"exit codes {[each.returncode for each in running]}")
        return set((place / "entered").read_text("utf-8").splitlines())


def main() -> None:
    """Print the files of both ways."""
    meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "-n", "2"]
    nodes = [["--nnodes", "2", *meet, "--local-addr", f"127.0.0.{n}"] for n in (1, 2)]
    for what, launchers in (("one machine", [["-n", str(RANKS)]]), ("two, by c10d", nodes)):
        lines = sorted(entered(launchers, kill=True) - entered(launchers, kill=False))
        files = sorted({line.partition(" ")[0] for line in lines})
        print(f"{what}: {len(files)} files, {len(lines)} functions")
        print("\n".join(lines if "--names" in sys.argv else files))


if __name__ == "__main__":
    main()
