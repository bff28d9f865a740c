"""The last rank dies when the others are there; those note when they got the stop signal.

detect_rank.py DIRECTORY
"""

import os
import signal
import sys
import time

directory, rank, n = sys.argv[1], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def note(name, text):
    path = os.path.join(directory, name)
    with open(f"{path}.part", "w") as f:
        f.write(str(text))
    os.rename(f"{path}.part", path)


if rank < n - 1:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    note(f"ready_{rank}", "")
    signal.sigwait([signal.SIGTERM])
    note(f"told_{rank}", time.monotonic_ns())
else:
    while not all(os.path.exists(os.path.join(directory, f"ready_{r}")) for r in range(rank)):
        time.sleep(0.005)
    time.sleep(0.2)  # so that the launcher, too, has come to rest
    note("died", time.monotonic_ns())
    os.kill(os.getpid(), signal.SIGKILL)
