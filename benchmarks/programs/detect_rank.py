"""The last rank dies when the others are there; those note when they got the stop signal.

detect_rank.py DIRECTORY
"""

import os
import signal
import sys
import time

from notes import note

directory, rank, n = sys.argv[1], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if rank < n - 1:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    note(directory, f"ready_{rank}")
    signal.sigwait([signal.SIGTERM])
    note(directory, f"told_{rank}")
else:
    while not all(os.path.exists(os.path.join(directory, f"ready_{r}")) for r in range(rank)):
        time.sleep(0.005)
    time.sleep(0.2)  # so that the launcher, too, has come to rest
    note(directory, "died")
    os.kill(os.getpid(), signal.SIGKILL)
