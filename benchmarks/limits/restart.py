"""By hand: import torch, fork n, and when one fails, end the others and fork n again.

restart.py N SCRIPT ARGS
"""

import os
import runpy
import signal
import sys

import torch  # noqa: F401

n, sys.argv = int(sys.argv[1]), sys.argv[2:]
sys.path[0] = os.path.dirname(sys.argv[0])
for attempt in range(2):
    pids = set()
    for rank in range(n):
        pid = os.fork()
        if pid == 0:
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(n))
            os.environ.update(TORCHELASTIC_RESTART_COUNT=str(attempt))
            try:
                runpy.run_path(sys.argv[0], run_name="__main__")
                os._exit(0)
            finally:
                os._exit(1)
        pids.add(pid)
    while pids:
        pid, status = os.wait()
        pids.discard(pid)
        if status and attempt == 0:
            for other in pids:
                os.kill(other, signal.SIGTERM)
