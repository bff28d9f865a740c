"""Run a Python program as ranks whose output is shown: the console is our standard output.

launch_logged.py tee|prefix|elastic RANKS DIRECTORY SCRIPT [ARGS ...]

tee: ours, to files and console; prefix: ours, to the console; elastic: to files and console. Leaves
the CPU seconds of the launching side (this process, and an agent) in DIRECTORY/launcher.
"""

import os
import sys
import time
from importlib import import_module
from pathlib import Path


def by_procession(procession, n, directory, command):
    logs = procession.Logs(directory, tee=procession.Std.ALL if directory else procession.Std.NONE)
    procession.run([sys.executable, *command], nproc=n, logs=logs)
    me = os.getpid()
    return sum(
        int((task / "schedstat").read_text().split()[0]) / 1e9
        for pid in Path(f"/proc/{me}/task/{me}/children").read_text().split()  # an agent that rests
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


def by_elastic(elastic, n, directory, command):
    from torch.distributed.elastic.multiprocessing import Std

    prefixes = {rank: f"[{rank}] " for rank in range(n)}
    group = elastic.start(n, directory, sys.executable, *command, prefixes=prefixes, tee=Std.ALL)
    group.wait(period=0.05)
    group.close()
    return 0.0


if __name__ == "__main__":
    way, n, directory, command = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    launch = by_elastic if way == "elastic" else by_procession
    launcher = import_module(launch.__name__.removeprefix("by_"))  # is not part of the work
    begin = time.process_time()
    other = launch(launcher, n, directory if way != "prefix" else None, command)
    Path(directory, "launcher").write_text(str(time.process_time() - begin + other))
