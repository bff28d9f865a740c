"""Run a Python program as ranks whose output is shown: the console is our standard output.

launch_logged.py tee|prefix|elastic RANKS DIRECTORY SCRIPT [ARGS ...]

tee: ours, to files and console; prefix: ours, to the console; elastic: to files and console. Leaves
the CPU seconds of the launching side (this process, and an agent) in DIRECTORY/launcher.
"""

import os
import sys
import time
from pathlib import Path


def by_procession(n, directory, command):
    import procession

    std = procession.Std.ALL if directory else procession.Std.NONE
    logs = procession.Logs(directory, tee=std)
    procession.run([sys.executable, *command], nproc=n, logs=logs)
    me = os.getpid()
    resting = Path(f"/proc/{me}/task/{me}/children").read_text().split()
    return sum(
        int((task / "schedstat").read_text().split()[0]) / 1e9
        for pid in resting
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


def by_elastic(n, directory, command):
    from torch.distributed.elastic.multiprocessing import Std

    import elastic

    prefixes = {rank: f"[{rank}] " for rank in range(n)}
    group = elastic.start(n, directory, sys.executable, *command, prefixes=prefixes, tee=Std.ALL)
    group.wait(period=0.05)
    group.close()
    return 0.0


if __name__ == "__main__":
    way, n, directory, command = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    if way == "elastic":
        import elastic  # noqa: F401 - not part of the work
    else:
        import procession  # noqa: F401
    begin = time.process_time()
    launch = by_elastic if way == "elastic" else by_procession
    other = launch(n, directory if way != "prefix" else None, command)
    Path(directory, "launcher").write_text(str(time.process_time() - begin + other))
