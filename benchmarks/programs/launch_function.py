"""Launch a function from a process that has imported torch; prints the seconds of two launches.

launch_function.py procession|spawn|limit RANKS [DIRECTORY]; with a directory, ranks stay.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch.multiprocessing
from functions import count, stay

import procession

FORK_RANKS = Path(__file__).parents[1] / "limits" / "fork_ranks.py"
SCRIPT = Path(__file__).with_name("torch_rank.py")


def by_hand(n, first):
    if first:  # a new process has to import torch
        command = [sys.executable, str(FORK_RANKS), str(n), "torch", str(SCRIPT)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return
    for _ in range(n):
        if os.fork() == 0:
            count()
            os._exit(0)
    for _ in range(n):
        assert os.wait()[1] == 0


def main(way, n, *directory):
    call = stay if directory else count
    seconds = []
    for k in range(2):
        begin = time.perf_counter()
        if way == "procession":
            assert procession.run(call, args=directory, nproc=n) == [1] * n
        elif way == "spawn":
            torch.multiprocessing.spawn(call, directory, nprocs=n)
        else:
            by_hand(n, first=k == 0)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
