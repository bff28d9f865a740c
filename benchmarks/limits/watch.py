"""By hand: start n, wait for a death, signal the others, wait for them; prints when that was done.

watch.py N COMMAND
"""

import json
import os
import signal
import sys
import time

n, command = int(sys.argv[1]), sys.argv[2:]
pids = set()
for rank in range(n):
    env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(n)}
    pids.add(os.posix_spawn(command[0], command, env))
pids.discard(os.wait()[0])
for pid in pids:
    os.kill(pid, signal.SIGTERM)
while pids:
    pids.discard(os.wait()[0])
print(json.dumps(time.monotonic_ns()))
